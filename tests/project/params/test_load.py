"""params.yaml: its YAML, its validation, and what the command line changes of it."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from tests.toy_project import PARAMS, load_params, write_params
from vse_pipe.core.errors import ParamsError, UnknownMember, UsageError
from vse_pipe.project.params import document
from vse_pipe.project.params.document import lookup, read_document
from vse_pipe.project.params.load import load
from vse_pipe.project.params.schema import EngineParams


def test_the_projects_own_file_is_valid():
    params = load(ROOT / "params.yaml")
    assert set(params.runs) >= {"sum", "max", "hal"}
    assert params.runs["hal"].loss.params.gamma == 20.0


def _run(**changes) -> dict:
    return {"sum": {**PARAMS["runs"]["sum"], **changes}}


BAD = [
    ({"train": {"epochs": "ten"}}, "params.yaml train.epochs: input should be a valid integer, got 'ten'"),
    ({"train": {"lr": "1e-5"}}, "params.yaml train.lr: input should be a valid number, got '1e-5'"),
    ({"train": {"lr": -1.0}}, "params.yaml train.lr: input should be greater than 0, got -1.0"),
    ({"train": {"epoch": 3}}, "params.yaml train.epoch: unknown key; did you mean 'epochs'?"),
    (
        {"runs": {"sum": {**PARAMS["runs"]["sum"], "los": "sum"}}},
        "params.yaml runs.sum.los: unknown key; did you mean 'loss'?",
    ),
    (
        {"report": {"audits": ["summ"]}},
        "params.yaml report.audits.0: unknown run 'summ'; did you mean 'sum'? known: sum",
    ),
    ({"report": {"audits": ["sum", "sum"]}}, "params.yaml report.audits.1: 'sum' is named twice"),
    ({"trian": {}}, "params.yaml trian: unknown key; did you mean 'train'?"),
    ({"loss": {"sum": {"margin": None}}}, "params.yaml loss.sum.margin: input should be a valid number, got None"),
    ({"loss": {"sum": {"marginn": 0.2}}}, "params.yaml loss.sum.marginn: unknown key; did you mean 'margin'?"),
    (
        {"runs": _run(image="finetune")},
        "params.yaml runs.sum.image: image encoder 'finetune' reads pixels, but features 'plain' (precomp) are not made from images",
    ),
    (
        {"features": {"plain": {"dataset": "toy", "backbone": "torchvision:mobilenet_v2"}}},
        "params.yaml features.plain.backbone: unknown backbone 'torchvision:mobilenet_v2'; write 'torchvision', and beside it the "
        "key model: mobilenet_v2",
    ),
    ({"runs": _run(loss="summ")}, "params.yaml runs.sum.loss: unknown loss 'summ'; did you mean 'sum'? known: "),
    (
        {"runs": _run(features="plane")},
        "params.yaml runs.sum.features: unknown features 'plane'; did you mean 'plain'?",
    ),
    ({"runs": _run(train={"epochs": 0})}, "params.yaml runs.sum.train.epochs: input should be greater than 0, got 0"),
    (
        {"grid": {"inferences": ["nns", "cslss"]}},
        "params.yaml grid.inferences.1: unknown inference criterion 'cslss'; did you mean 'csls'?",
    ),
    (
        {"grid": {"inferences": ["rgm+is"]}},
        "params.yaml grid.inferences.0: inference criterion 'rgm+is': a matching comes last; write 'is+rgm'",
    ),
    ({"grid": {"inferences": []}}, "params.yaml grid.inferences: "),
    (
        {"datasets": {"toy": {"format": "csvv", "source": "x"}}},
        "params.yaml datasets.toy.format: unknown format 'csvv'; did you mean 'csv'?",
    ),
    (
        {"noises": {"clean": {"dataset": "toy", "protocol": "image", "rate": 1.5}}},
        "params.yaml noises.clean.rate: input should be less than or equal to 1",
    ),
    (
        {"datasets": {"toy": {"format": "csv", "source": "x", "on_error": "skipp"}}},
        "params.yaml datasets.toy.on_error: input should be 'fail' or 'skip', got 'skipp'",
    ),
    (
        {"datasets": {"toy": {"format": "parquet", "source": "x", "val": 1.5}}},
        "params.yaml datasets.toy.val: expected a pattern of file names, or a share from 0 to below 1",
    ),
    (
        {"features": {"plain": {"dataset": "toy", "backbone": "precomp", "max_errors": 1.5}}},
        "params.yaml features.plain.max_errors: expected a whole number of images, or a share below 1",
    ),
    (
        {"features": {"plain": {"dataset": "toy", "backbone": "precomp", "max_errors": -1}}},
        "params.yaml features.plain.max_errors: input should be greater than or equal to 0, got -1",
    ),
    ({"datasets": {"to/y": {"format": "csv", "source": "x"}}}, "params.yaml datasets.to/y."),
    ({"seed": True}, "params.yaml seed: "),
    ({"seed": 2**32}, "params.yaml seed: input should be less than 4294967296"),
    ({"train": {"grad_clip": float("inf")}}, "params.yaml train.grad_clip: input should be a finite number"),
    ({"loss": {"hal": {"gamma": float("inf")}}}, "params.yaml loss.hal.gamma: input should be a finite number"),
    ({"runs": _run(options={"loss": {"margin": float("inf")}})}, "params.yaml runs.sum.options.loss.margin: "),
    ({"train": {"embed_size": 2**20 + 1}}, "params.yaml train.embed_size: input should be less than or equal"),
    ({"text": {"gru": {"word_dim": 2**20 + 1}}}, "params.yaml text.gru.word_dim: input should be less than"),
    ({"train": {"batch_size": 2**31}}, "params.yaml train.batch_size: input should be at most 2147483647"),
    (
        {"runs": _run(options={"loss": {"k": 2**63}}, loss="hal_emnlp")},
        "params.yaml runs.sum.options.loss.k: input should be at most 2147483647, got 9223372036854775808",
    ),
    (
        {"runs": _run(text="two_branch", options={"text": {"hidden": [2**20 + 1]}})},
        "params.yaml runs.sum.options.text.hidden",
    ),
    (
        {"texts": {**PARAMS["texts"], "plain": PARAMS["texts"]["words"]}},
        "params.yaml texts.plain: features.plain of the same data set is written to the same folder; rename",
    ),
    (
        {"runs": _run(loss="structure", similarity="order")},
        "params.yaml runs.sum.loss: loss 'structure' works with similarity cosine, not 'order'",
    ),
    (
        {"runs": _run(loss="hal", similarity="order")},
        "params.yaml runs.sum.loss: loss 'hal' pulls a pair together only while its similarity is above 0, and 'order' never is",
    ),
    ({"train": {"min_count": 4}}, "params.yaml train.min_count: moved to texts.<name>.min_count"),
    ({"runs": _run(train={"max_words": 9})}, "params.yaml runs.sum.train.max_words: moved to texts.<name>.max_words"),
    ({"evaluate": {"approximate": "ivf"}}, "params.yaml evaluate.approximate: removed: every item is ranked"),
    ({"loss": {"maxx": {"margin": 0.1}}}, "params.yaml loss.maxx: unknown loss 'maxx'; did you mean 'max'?"),
    ({"scheme": {"ncr": {"warmup": 5}}}, "params.yaml scheme.ncr.warmup: unknown key"),
    ({"search": {"recall": 0.9}}, "params.yaml search: removed: every item is scored; `vse-pipe export --to faiss`"),
]
ENDINGS = [".partial", ".lock", ".timing.json"]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message.split(" ", 1)[1][:40] for _, message in BAD])
def test_bad_values_are_named_with_their_address(tmp_path, changes, message):
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, **changes)
    assert any(problem.startswith(message) for problem in error.value.problems), error.value.problems


def test_all_problems_are_shown_together(tmp_path):
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, seed=-1, train={"epochs": "ten", "lr": 0})
    assert len(error.value.problems) == 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"loss": {"sum": {"marginn": 0.2}}}, "loss.sum.marginn: unknown key; did you mean 'margin'?"),
        ({"text": {"gru": {"word_dim": "x"}}}, "text.gru.word_dim: input should be a valid integer, got 'x'"),
        ({"train": {"warm_up": 9.0, "epochs": 9}}, "train.warm_up: 9 epochs leave none of train.epochs 9"),
    ],
)
def test_what_runs_share_is_a_problem_once_and_where_it_stands(tmp_path, changes, problem):
    own = {"options": {"loss": {"margin": 0.3}, "text": {"layers": 1}}, "train": {"lr": 0.5}}
    run = PARAMS["runs"]["sum"]
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, runs={"sum": run, "again": run, "other": {**run, **own}}, **changes)
    (found,) = error.value.problems
    assert found.startswith(f"params.yaml {problem}")


def test_features_of_another_data_set_are_refused(tmp_path):
    datasets = {**PARAMS["datasets"], "other": {"format": "csv", "source": "x.csv"}}
    with pytest.raises(ParamsError, match="'plain' belongs to data set 'toy', not 'other'"):
        load_params(tmp_path, datasets=datasets, runs=_run(dataset="other"))


@pytest.mark.parametrize("text", ["lr: 1e-05", "lr: 1.0e-5", "lr: 0.00001"])
def test_floats_as_dvc_writes_them(tmp_path, text):
    path = write_params(tmp_path)
    path.write_text(path.read_text().replace("lr: 0.01", text))
    assert load(path).runs["sum"].train.lr == 1e-5


def test_a_run_overrides_single_training_values(tmp_path):
    run = load_params(tmp_path, runs=_run(train={"lr": 0.5})).runs["sum"]
    assert (run.train.lr, run.train.epochs) == (0.5, 4)


def test_overrides_for_one_call(tmp_path):
    path = write_params(tmp_path)
    params = load(path, ["train.lr=1e-4", "loss.sum.margin=0.3", "seed=9"])
    assert (params.runs["sum"].train.lr, params.runs["sum"].loss.params.margin, params.seed) == (1e-4, 0.3, 9)
    assert load(path).seed == 3


@pytest.mark.parametrize(
    "text",
    ["train.lr", "=3", "seed.deep=1", "train.lr=[1", "train.lr=2001-99-99", pytest.param("a=" + "[" * 5000, id="deep")],
)
def test_malformed_overrides(tmp_path, text):
    with pytest.raises(UsageError, match="--set"):
        load(write_params(tmp_path), [text])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed: [1", "not valid YAML"),
        (b"seed: 1\nseed: 2\n", "not valid YAML"),
        (b"- 1\n", "expected a mapping of sections, got list"),
        (b"", "expected a mapping of sections, got NoneType"),
        (b"seed: \xff\n", "not UTF-8"),
        (b"seed: 2001-99-99", "not valid YAML"),
        pytest.param(b"seed: " + b"[" * 20_000 + b"]" * 20_000, "nested too deeply, more than 100 levels", id="deep"),
        pytest.param(b"seed: " + b"{a: " * 20_000, "nested too deeply", id="deep mappings"),
        pytest.param(b"- " * 20_000, "nested too deeply", id="deep lists"),
    ],
)
def test_files_that_are_no_parameters(tmp_path, content, message):
    path, started = tmp_path / "params.yaml", time.process_time()
    path.write_bytes(content)
    with pytest.raises(ParamsError, match=message):
        load(path)
    assert time.process_time() - started < 10


def test_written_and_read_back(tmp_path):
    path = write_params(tmp_path)
    assert YAML(typ="safe").load(path.read_text())["train"] == PARAMS["train"]


def test_a_row_that_no_paper_has_is_named_with_its_address(tmp_path):
    runs = {"sum": {**PARAMS["runs"]["sum"], "row": "hal-aaai2020 2.99"}}
    with pytest.raises(ParamsError, match=r"params.yaml runs.sum.row: .*2\.99"):
        load_params(tmp_path, runs=runs)
    runs["sum"]["row"] = "hal-aaai2020 2.12"
    assert load_params(tmp_path, runs=runs).runs["sum"].row == "hal-aaai2020 2.12"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("section", ["datasets", "features", "texts", "noises", "runs"])
def test_names_that_collide_with_files_of_other_nodes(tmp_path, section, ending):
    (node, *_) = PARAMS[section].values()
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, **{section: {**PARAMS[section], f"sum{ending}": node}})
    start = f"params.yaml {section}.sum{ending}.[key]: a name must not end in {ending}"
    assert any(problem.startswith(start) for problem in error.value.problems), error.value.problems


@pytest.mark.parametrize("section", ["datasets", "features", "texts", "noises", "runs"])
def test_a_name_that_no_file_can_have(tmp_path, section):
    (node, *_) = PARAMS[section].values()
    with pytest.raises(ParamsError, match="a name has at most 200 characters, this one 300: files are named after it"):
        load_params(tmp_path, **{section: {**PARAMS[section], "x" * 300: node}})


def test_features_and_texts_of_different_data_sets_may_share_a_name(tmp_path):
    datasets = {**PARAMS["datasets"], "other": {"format": "csv", "source": "x.csv"}}
    texts = {**PARAMS["texts"], "plain": {"dataset": "other", "method": "words"}}
    assert load_params(tmp_path, datasets=datasets, texts=texts).texts["plain"].dataset == "other"


def test_what_a_file_of_the_previous_version_lacks_is_said(tmp_path):
    path = tmp_path / "params.yaml"
    run = {key: value for key, value in PARAMS["runs"]["sum"].items() if key not in ("texts", "scheme")}
    old = {key: value for key, value in PARAMS.items() if key != "texts"}
    with path.open("w") as file:
        YAML().dump({**old, "runs": {"sum": run}}, file)
    with pytest.raises(ParamsError) as error:
        load(path)
    assert error.value.problems == [
        "params.yaml texts: field required; add `texts: {words: {dataset: NAME, method: words}}`, and `texts: words` to its runs",
        "params.yaml runs.sum.texts: field required; add `texts: NAME`, a node of the section texts",
        "params.yaml runs.sum.scheme: field required; add `scheme: plain`",
    ]


def test_a_count_at_the_limit_and_a_list_of_widths_are_fine(tmp_path):
    run = load_params(tmp_path, train={"batch_size": 2**31 - 1}, seed=2**32 - 1).runs["sum"]
    assert run.train.batch_size == 2**31 - 1


def test_broken_images_stop_by_default(tmp_path):
    plain = {"dataset": "toy", "backbone": "precomp"}
    node = load_params(tmp_path, features={"plain": plain}).features["plain"]
    assert (node.on_error, node.max_errors) == ("fail", 0.01)
    changed = {**plain, "on_error": "skip", "max_errors": 20}
    node = load_params(tmp_path, features={"plain": changed}).features["plain"]
    assert (node.on_error, node.max_errors) == ("skip", 20)
    datasets = {"toy": {**PARAMS["datasets"]["toy"], "on_error": "skip"}}
    assert load_params(tmp_path, datasets=datasets).features["plain"].on_error == "skip", "one switch for both"
    strict = {"plain": {**plain, "on_error": "fail"}}
    assert load_params(tmp_path, datasets=datasets, features=strict).features["plain"].on_error == "fail"


def test_the_name_of_a_run_may_hold_dots(tmp_path):
    path = write_params(tmp_path, runs={"sum": PARAMS["runs"]["sum"], "v1.0": {**PARAMS["runs"]["sum"]}})
    params = load(path, ["runs.v1.0.train.lr=0.5", "runs.v1.0.options.text.word_dim=4"])
    assert (params.runs["v1.0"].train.lr, params.runs["v1.0"].text.params.word_dim) == (0.5, 4)
    assert params.runs["sum"].train.lr == PARAMS["train"]["lr"]
    assert lookup(read_document(path), "runs.v1.0.loss") == ("sum",)
    assert lookup(read_document(path), "runs.v1.1.loss") is None


def test_one_file_under_two_digests_is_refused(tmp_path):
    part = {"method": "mean_vectors", "vectors": "glove.txt"}
    parts = [{**part, "sha256": "0" * 64}, {**part, "sha256": "1" * 64, "unit": True}]
    with pytest.raises(ParamsError, match=r"texts\.words\.parts: glove\.txt has two different sha256 among the parts"):
        load_params(tmp_path, texts={"words": {"dataset": "toy", "method": "mixed", "parts": parts}}, runs={})


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), 1e300, 1e-300, 0.0])
def test_a_weight_that_the_vectors_cannot_have_is_refused_at_its_part(tmp_path, weight):
    parts = [{"method": "tfidf"}, {"method": "tfidf", "weight": weight}]
    with pytest.raises(ParamsError, match=r"texts\.words\.parts\.1\.weight: input should be"):
        load_params(tmp_path, texts={"words": {"dataset": "toy", "method": "mixed", "parts": parts}}, runs={})


def _parsed(text: str) -> object:
    try:
        return document.parse_yaml(text)
    except ValueError as error:
        return str(error)


def _read_by_either(text: str) -> None:
    found = _parsed(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "_plain", lambda text: False)
        assert found == _parsed(text)


SCALARS = [
    "1e-05",
    "yes",
    "012",
    "1:30",
    "1_000",
    "{a:1}",
    "[a:b]",
    "",
    "[",
    "[" * 98 + "]" * 98,
    "[" * 100 + "]" * 100,
]
PLAIN = [*(f"a: {one}" for one in SCALARS), "<<: {a: 1}", "- - a", "? [a]\n: b", "? [[a]]\n: b", "a: 1\na: 2"]


@pytest.mark.parametrize("text", PLAIN)
def test_either_parser_reads_the_same(text):
    """The one in C is asked first, where it is known to read what the other reads."""
    assert document._plain(text)
    _read_by_either(text)


@pytest.mark.parametrize("text", ["a: !", "a: |#", "a: &x [1]\nb: *x", "%YAML 1.1\n---\na: yes", "a: b\x85c"])
def test_what_the_parsers_read_otherwise_is_for_one(text):
    assert not document._plain(text)
    _read_by_either(text)


@given(st.text("[]{}:,-?#'\"0123456789 \n"))
@settings(max_examples=300)
def test_either_parser_reads_the_same_of_signs(text):
    _read_by_either(text)


def test_values_lie_up_to_a_hundred_levels_deep():
    found = document.parse_yaml("[" * 100 + "]" * 100)
    for _ in range(99):
        (found,) = found
    assert found == []
    with pytest.raises(ValueError, match="more than 100 levels"):
        document.parse_yaml("[" * 101 + "]" * 101)


RAY = EngineParams(name="ray", workers=4, address="auto")


def test_the_command_line_changes_what_it_names() -> None:
    assert EngineParams().changed(None, None, None) == EngineParams(
        name="local", workers=1, address="local", memory=2048
    )
    assert RAY.changed(None, 2, None) == EngineParams(name="ray", workers=2, address="auto")
    assert EngineParams().changed("ray", 3, None) == EngineParams(name="ray", workers=3, address="local")
    assert RAY.changed("local", None, None).name == "local"


def test_refuses_workers_without_ray_and_unknown_engines() -> None:
    for options in [(2, None), (None, "auto")]:
        with pytest.raises(UsageError, match="--workers and --address belong to --engine ray"):
            RAY.changed("local", *options)
    with pytest.raises(UsageError, match="--workers 0: expected 1 or more"):
        RAY.changed(None, 0, None)
    with pytest.raises(UnknownMember, match="unknown engine 'rya'; did you mean 'ray'"):
        RAY.changed("rya", None, None)


def test_params_yaml_names_it(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text() + "\nengine: {name: ray, workers: 2}\n")
    assert load(path).engine == EngineParams(name="ray", workers=2)
    with pytest.raises(
        ParamsError, match=r"engine.name: unknown engine 'rya'; did you mean 'ray'\? known: local, ray$"
    ):
        load(path, ["engine.name=rya"])


def test_no_stage_depends_on_it() -> None:
    stages = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"].values()
    named = [key for stage in stages for key in stage.get("do", stage).get("params", [])]
    assert len(named) > 20
    assert [key for key in named if str(key).startswith("engine")] == []
