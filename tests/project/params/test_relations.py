"""Entries of params.yaml that name others: sweeps, ensembles, teachers, transfers, files of data sets."""

import pytest

from tests.resolved import resolved
from tests.rules.sources import ROOT
from tests.toy_project import PARAMS, load_params
from vse_pipe.core.errors import ParamsError
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load_measuring

RUN = PARAMS["runs"]["sum"]
SWEEPS_RUNS = {
    "a": RUN,
    "b": {**RUN, "train": {"batch_size": 16, "lr": 0.5}, "options": {"loss": {"margin": 0.4}}},
    "c": {**RUN, "loss": "hal", "noise": "half"},
}
OTHER = {
    "datasets": {**PARAMS["datasets"], "more": {"format": "csv", "source": "more.csv"}},
    "features": {**PARAMS["features"], "other": {"dataset": "more", "backbone": "precomp"}},
    "texts": {**PARAMS["texts"], "more": {"dataset": "more", "method": "words"}},
    "noises": {**PARAMS["noises"], "more": {"dataset": "more", "protocol": "image", "rate": 0.0}},
}
FAR = {**RUN, "dataset": "more", "features": "other", "texts": "more", "noise": "more"}


def sweeps_loaded(path, **changes):
    sweep = {"x": "train.lr", "runs": ["a", "b"], **changes}
    return load_params(path, runs=SWEEPS_RUNS, report={"sweeps": {"s": sweep}})


@pytest.mark.parametrize(("x", "expected"), [("train.lr", [0.01, 0.5, 0.01]), ("noise.rate", [0.0, 0.0, 0.5])])
def test_a_value_is_read_from_the_resolved_run(tmp_path, x, expected):
    params = sweeps_loaded(tmp_path, x=x, runs=["a", "b", "c"])
    assert [params.number(run, x) for run in "abc"] == expected


def test_a_sweep_has_runs_of_one_data_set_whose_own_options_count_and_no_blame_for_a_broken_one(tmp_path):
    params = sweeps_loaded(tmp_path, x="loss.margin")
    assert [params.number(run, "loss.margin") for run in "ab"] == [0.2, 0.4]
    report = {"sweeps": {"s": {"x": "train.lr", "runs": ["near"], "baselines": ["far"]}}}
    message = r"sweeps\.s\.runs: all runs must be of one data set, but 'near' is of 'toy' and 'far' is of 'more'"
    with pytest.raises(ParamsError, match=message):
        load_params(tmp_path, **OTHER, runs={"near": RUN, "far": FAR}, report=report)
    runs = {"a": {**RUN, "loss": "summ"}}
    report = {"sweeps": {"s": {"x": "loss.margin", "runs": ["a"]}}}
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, runs=runs, report=report)
    assert len(error.value.args) == 1
    assert "unknown loss 'summ'" in error.value.args[0]


BAD = [
    ({"runs": ["a", "bb"]}, "runs.1: unknown run 'bb'; did you mean 'b'? known: a, b, c"),
    ({"x": "loss.margn"}, "x: run 'a' has no number at 'loss.margn'"),
    ({"x": "loss.variant", "runs": ["c"]}, "x: run 'c' has no number at 'loss.variant'"),
    ({"inference": "nnss"}, "inference: 'nnss' is not in grid.inferences; did you mean 'nns'? known: nns"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_mistakes_are_named_with_their_address(tmp_path, changes, message):
    with pytest.raises(ParamsError) as error:
        sweeps_loaded(tmp_path, **changes)
    wanted = f"params.yaml report.sweeps.s.{message}"
    assert any(problem.startswith(wanted) for problem in error.value.args), error.value.args


RUNS = {"a": RUN, "b": RUN, "far": FAR}


def loaded(path, name="both", **node):
    return load_params(path, runs=RUNS, **OTHER, ensembles={name: {"runs": ["a", "b"], **node}})


def test_an_ensemble_is_ranked_after_the_runs_and_a_run_with_seeds_stands_for_all(tmp_path):
    params = loaded(tmp_path)
    assert params.evaluated() == ["a", "b", "far", "both"]
    assert loaded(tmp_path, runs=["b", "a"]).ensembles["both"].members == ("b", "a")
    runs = {**RUNS, "a": {**RUN, "seeds": [1, 2]}}
    ensembles = {"seeds": {"runs": ["a"]}, "more": {"runs": ["b", "a/2"]}}
    params = load_params(tmp_path, runs=runs, **OTHER, ensembles=ensembles)
    assert params.ensembles["seeds"].members == ("a/1", "a/2")
    assert params.ensembles["more"].members == ("b", "a/2")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"runs": ["a", "fah"]}, ".runs.1: unknown run 'fah'; did you mean 'far'? known: a, b, far"),
        ({"runs": ["a", "far"]}, ": all runs must be of one data set, but 'a' is of 'toy' and 'far' is of 'more'"),
        ({"name": "b"}, "ensembles.b: a run has this name, and its folder in data/evaluate; rename one"),
        ({"weights": [1.0]}, ".weights: 1 weights for 2 models"),
        ({"weights": [0.0, 0.0]}, ".weights: all are 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_address(tmp_path, node, message):
    with pytest.raises(ParamsError) as caught:
        loaded(tmp_path, **node)
    assert message in str(caught.value).replace("ensembles.both", "")


TEACHER = {"dataset": "toy", "noise": "clean", "run": "big"}
STUDENT = {**RUN, "scheme": "distil", "noise": "taught"}


def teachers_loaded(path, teachers=None, **runs):
    given = {"taught": TEACHER} if teachers is None else teachers
    return load_params(path, **OTHER, teachers=given, runs={"big": RUN, "far": FAR, "small": STUDENT, **runs})


def test_pairs_behind_a_teacher_are_those_of_its_noise_and_runs_must_fit_it(tmp_path):
    params = teachers_loaded(tmp_path, {"taught": {**TEACHER, "noise": "other"}, "other": {**TEACHER, "noise": "half"}})
    assert params.pairs("taught") == params.noises["half"] == params.pairs("half")

    def told(**changes):
        with pytest.raises(ParamsError) as caught:
            teachers_loaded(tmp_path, **changes)
        return str(caught.value)

    assert "runs.small.scheme: scheme 'distil' needs a teacher" in told(small={**STUDENT, "noise": "clean"})
    assert "runs.small.noise: noise 'taught' is a teacher" in told(small={**STUDENT, "scheme": "plain"})
    assert "teachers.half: noises.half of the same data set" in told(teachers={"half": TEACHER, "taught": TEACHER})
    order = {**RUN, "similarity": "order"}
    assert "'big' is compared by order; a teacher is compared by cosine" in told(big=order)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"run": "far"}, "teachers.taught.run: 'far' belongs to data set 'more', not 'toy'"),
        ({"noise": "more"}, "teachers.taught.noise: 'more' belongs to data set 'more', not 'toy'"),
        ({"run": "small"}, "teachers.taught: what it is made of is trained on it, in a circle"),
        ({"noise": "taught"}, "teachers.taught: what it is made of is trained on it, in a circle"),
    ],
)
def test_teachers_what_is_wrong_is_said_with_its_address(tmp_path, node, message):
    with pytest.raises(ParamsError) as caught:
        teachers_loaded(tmp_path, {"taught": {**TEACHER, **node}})
    assert message in str(caught.value)


def test_in_dvc_yaml_a_student_depends_on_its_teacher_and_on_no_other_run():
    """Through its pairs: by the stages' own outputs, from the student back to what the teacher is trained on."""
    document = read_document(ROOT / "params.yaml")
    document["teachers"] = {"taught": {"dataset": "shapes", "noise": "clean", "run": "max"}}
    document["runs"]["small"] = {**document["runs"]["sum"], "scheme": "distil", "noise": "taught"}
    stages = resolved((ROOT / "dvc.yaml").read_text(encoding="utf-8"), document)
    made = {out: stage for stage in stages for out in stage.outs}
    found, waiting = set(), ["train@small"]
    while waiting:
        name = waiting.pop()
        (stage,) = (one for one in stages if one.name == name)
        found.add(stage.name)
        waiting += [made[dep].name for dep in stage.deps if dep in made]
    assert found >= {"inject_teachers@taught", "embed@max", "train@max", "inject@clean"}
    assert not found & {"embed@small", "train@sum", "embed@sum", "train@hal"}


NODE = {"run": "seen", "dataset": "mine", "features": "my_filters"}
FILTERS, SEEN = {"backbone": "random_filters", "image_size": 32}, {**RUN, "features": "filters"}
CHANGES = {
    "datasets": {name: {"format": "csv", "source": "toy.csv"} for name in ("toy", "mine", "bare")},
    "features": {"plain": {"dataset": "toy", "backbone": "precomp"}, "filters": {"dataset": "toy", **FILTERS},
        "my_filters": {"dataset": "mine", **FILTERS}, "my_plain": {"dataset": "mine", "backbone": "precomp"}},
    "runs": {"sum": RUN, "seen": SEEN, "often": {**SEEN, "seeds": [4, 2]}},
}  # fmt: skip


def _load(root, **transfers: dict):
    return load_params(root, **CHANGES, transfers=transfers)


def test_a_run_with_seeds_has_a_transfer_for_each(tmp_path):
    params = _load(tmp_path, moved={**NODE, "run": "often"})
    assert {name: node.run for name, node in params.transfers.items()} == {"moved/4": "often/4", "moved/2": "often/2"}
    assert params.groups["moved"] == ("moved/4", "moved/2")
    assert params.named(params.evaluated()) == ["sum", "seen", "often", "moved"]
    assert params.trained("moved/2") == "often/2"
    assert params.dataset("moved/2") == "mine"
    assert params.dataset("often/2") == "toy"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"dataset": "toy", "features": "filters"}, r"dataset: run 'seen' was trained on 'toy' itself; name another data set"),
        ({"dataset": "bare"}, r"'my_filters' belongs to data set 'mine', not 'bare'"),
        ({"features": "my_plain"}, r"is of precomp; run 'seen' reads random"),
        ({"bank": "bare"}, r"bank: 'bare' is neither of the data sets 'mine' and 'toy'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(tmp_path, node, message):
    with pytest.raises(ParamsError, match=message) as error:
        _load(tmp_path, moved={**NODE, **node})
    assert len(error.value.args) == 1


@pytest.mark.parametrize("name", ["sum", "often"])
def test_a_transfer_has_a_folder_of_its_own(tmp_path, name):
    with pytest.raises(ParamsError, match=rf"transfers\.{name}: a run or an ensemble has this name"):
        _load(tmp_path, **{name: NODE})


TWO = {**CHANGES, "transfers": {"moved": NODE}}


def test_a_data_set_has_its_own_files_and_vectors_from_files_are_of_none(tmp_path):
    one = {"judgements": {"mine": "j.csv"}, "sha256": {"j.csv": "0" * 64}}
    evaluate = load_params(tmp_path, **TWO, evaluate=one).evaluate
    assert (evaluate.for_dataset("mine").judgements, evaluate.for_dataset("toy").judgements) == ("j.csv", None)
    with pytest.raises(ParamsError, match=r"evaluate\.judgements: names data sets, and vectors from files are of none"):
        load_measuring(["evaluate.judgements={toy: j.csv}"])


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ({"judgements": "j.csv"}, r"\.judgements: runs are on several data sets, toy, mine; give each its file"),
        ({"judgements": {"tox": "l.csv"}}, r"evaluate\.judgements\.tox: unknown data set 'tox'; did you mean 'toy'"),
        ({"sha256": {"j.csv": "0" * 64}}, r"evaluate\.sha256\.j\.csv: judgements does not name that file"),
    ],
)  # fmt: skip
def test_what_is_of_no_data_set_is_refused(tmp_path, evaluate, message):
    with pytest.raises(ParamsError, match=message):
        load_params(tmp_path, **TWO, evaluate=evaluate)
