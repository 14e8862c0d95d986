import pytest

from tests.toy_project import PARAMS, load_params
from vse_pipe.core.errors import ParamsError
from vse_pipe.project.params import checks

RUN = PARAMS["runs"]["sum"]
RUNS = {
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


def loaded(path, **changes):
    sweep = {"x": "train.lr", "runs": ["a", "b"], **changes}
    return load_params(path, runs=RUNS, report={"sweeps": {"s": sweep}})


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ("train.batch_size", [8, 16, 8]),
        ("train.lr", [0.01, 0.5, 0.01]),
        ("noise.rate", [0.0, 0.0, 0.5]),
        ("texts.min_count", [1, 1, 1]),
        ("text.word_dim", [6, 6, 6]),
    ],
)
def test_a_value_is_read_from_the_resolved_run(tmp_path, x, expected):
    params = loaded(tmp_path, x=x, runs=["a", "b", "c"])
    assert [checks.value(params, run, x) for run in "abc"] == expected


def test_a_member_takes_the_runs_own_options(tmp_path):
    params = loaded(tmp_path, x="loss.margin")
    assert [checks.value(params, run, "loss.margin") for run in "ab"] == [0.2, 0.4]


BAD = [
    ({"runs": ["a", "bb"]}, "runs.1: unknown run 'bb'; did you mean 'b'? known: a, b, c"),
    ({"baselines": ["d"]}, "baselines.0: unknown run 'd'; known: a, b, c"),
    ({"runs": ["a", "b", "a"]}, "runs.2: run 'a' is named twice"),
    ({"runs": []}, "runs: list should have at least 1 item"),
    (
        {"x": "loss.margn"},
        "x: run 'a' has no value 'loss.margn'; did you mean 'loss.margin'? known: loss.curriculum, loss.",
    ),
    ({"x": "loss.margin", "runs": ["a", "c"]}, "x: run 'c' has no value 'loss.margin'"),
    ({"x": "margin"}, "x: run 'a' has no value 'margin'"),
    ({"x": "epochs"}, "x: run 'a' has no value 'epochs'; did you mean 'epoch'? known: epoch, "),
    ({"x": "loss"}, "x: run 'a' has no value 'loss'"),
    ({"x": "loss.variant", "runs": ["c"]}, "x: expected a number, but loss.variant of run 'c' is 'extended'"),
    ({"x": "text.use_abs"}, "x: expected a number, but text.use_abs of run 'a' is False"),
    ({"inference": "csls"}, "inference: 'csls' is not in grid.inferences; known: nns"),
    ({"inference": "nnss"}, "inference: 'nnss' is not in grid.inferences; did you mean 'nns'? known: nns"),
    ({"x": "epoch", "baselines": ["a"]}, "baselines: learning curves (x: epoch) have none; leave it out"),
    ({"x": "epoch", "inference": "nns"}, "inference: learning curves (x: epoch) have none; leave it out"),
    ({"rums": ["a"]}, "rums: unknown key; did you mean 'runs'?"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_mistakes_are_named_with_their_address(tmp_path, changes, message):
    with pytest.raises(ParamsError) as error:
        loaded(tmp_path, **changes)
    wanted = f"params.yaml report.sweeps.s.{message}"
    assert any(problem.startswith(wanted) for problem in error.value.problems), error.value.problems


def test_runs_of_two_data_sets_are_not_compared(tmp_path):
    report = {"sweeps": {"s": {"x": "train.lr", "runs": ["near"], "baselines": ["far"]}}}
    message = r"sweeps\.s\.runs: runs of several data sets cannot be compared: 'near' is of 'toy', 'far' is of 'more'"
    with pytest.raises(ParamsError, match=message):
        load_params(tmp_path, **OTHER, runs={"near": RUN, "far": FAR}, report=report)


def test_a_broken_run_is_not_blamed_on_the_sweep(tmp_path):
    runs = {"a": {**RUN, "loss": "summ"}}
    report = {"sweeps": {"s": {"x": "loss.margin", "runs": ["a"]}}}
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, runs=runs, report=report)
    assert len(error.value.problems) == 1
    assert "unknown loss 'summ'" in error.value.problems[0]
