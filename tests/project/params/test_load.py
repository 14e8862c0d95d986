"""params.yaml: its YAML, its validation, what the command line changes of it, and overlays."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from tests.toy_project import PARAMS, load_params, write_params
from vse_pipe.core.errors import ParamsError, UsageError
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.project.params.nodes import EngineParams
from vse_pipe.project.paths import run_entry
from vse_pipe.project.registry import INFERENCES


def test_the_projects_own_file_is_valid_and_a_run_or_a_call_overrides_single_values(tmp_path):
    params = load(ROOT / "params.yaml")
    assert set(params.runs) >= {"sum", "max", "hal"}
    assert params.runs["hal"].loss.params.gamma == 20.0
    run = load_params(tmp_path, runs=_run(train={"lr": 0.5})).runs["sum"]
    assert (run.train.lr, run.train.epochs) == (0.5, 4)
    run = load_params(tmp_path, train={"batch_size": 2**31 - 1}, seed=2**32 - 1).runs["sum"]
    assert run.train.batch_size == 2**31 - 1
    path = write_params(tmp_path)
    params = load(path, ["train.lr=1e-4", "loss.sum.margin=0.3", "seed=9"])
    assert (params.runs["sum"].train.lr, params.runs["sum"].loss.params.margin, params.seed) == (1e-4, 0.3, 9)
    assert load(path).seed == 3
    path = write_params(tmp_path, runs={"sum": PARAMS["runs"]["sum"], "v1.0": {**PARAMS["runs"]["sum"]}})
    params = load(path, ["runs.v1.0.train.lr=0.5", "runs.v1.0.options.text.word_dim=4"])
    assert (params.runs["v1.0"].train.lr, params.runs["v1.0"].text.params.word_dim) == (0.5, 4)
    assert params.runs["sum"].train.lr == PARAMS["train"]["lr"]
    path = write_params(tmp_path)
    assert YAML(typ="safe").load(path.read_text())["train"] == PARAMS["train"]


def _run(**changes) -> dict:
    return {"sum": {**PARAMS["runs"]["sum"], **changes}}


def _toy(kind: str, **values) -> dict:
    return {"datasets": {"toy": {"format": kind, "source": "x", **values}}}


PIXELS = "image encoder 'finetune' cannot train the network of features 'plain' (precomp)"
BAD = [
    ({"train": {"epoch": 3}}, "train.epoch: unknown key"),
    ({"report": {"audits": ["summ"]}}, "report.audits.0: unknown run 'summ'; did you mean 'sum'? known: sum"),
    ({"report": {"cleaning": {"clean": "flickr"}}}, "report.cleaning.clean: noise 'clean' is of data set 'toy', not of 'flickr'"),
    ({"runs": _run(image="finetune")}, f"runs.sum.image: {PIXELS}"),
    ({"runs": _run(loss="summ")}, "runs.sum.loss: unknown loss 'summ'; did you mean 'sum'? known: "),
    ({"grid": {"inferences": ["nns", "cslss"]}}, "grid.inferences.1: unknown inference criterion 'cslss'; did"),
    ({"grid": {"inferences": ["rgm+is"]}},
        "grid.inferences.0: inference criterion 'rgm+is': expected one, or a rescoring"),
    ({"noises": {"clean": {**PARAMS["noises"]["clean"], "rate": 1.5}}},
        "noises.clean.rate: input should be less than or equal to 1"),
    (_toy("parquet", val=1.5), "datasets.toy.val: expected a pattern of file names, or a share from 0 to below 1"),
    ({"runs": {"sum.partial": PARAMS["runs"]["sum"]}}, "runs.sum.partial.[key]: string should match pattern"),
    ({"train": {"grad_clip": float("inf")}}, "train.grad_clip: input should be a finite number"),
    ({"texts": dict.fromkeys(("words", "plain"), PARAMS["texts"]["words"])},
        "texts.plain: features.plain of the same data set is"),
    ({"runs": _run(loss="structure", similarity="order")},
        "runs.sum.loss: loss 'structure' works with similarity cosine, not 'order'"),
    ({"runs": _run(loss="hal", similarity="order")}, "runs.sum.loss: loss 'hal' pulls a pair together only"),
    ({"loss": {"maxx": {"margin": 0.1}}}, "loss.maxx: unknown loss 'maxx'; did you mean 'max'?"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_values_are_named_with_their_address(tmp_path, changes, message):
    with pytest.raises(ParamsError) as error:
        load_params(tmp_path, **changes)
    problems = error.value.args
    assert any(problem.startswith(f"params.yaml {message}") for problem in problems), problems


def test_features_are_of_the_data_set_of_a_run(tmp_path):
    datasets = {**PARAMS["datasets"], "other": {"format": "csv", "source": "x.csv"}}
    with pytest.raises(ParamsError, match="'plain' belongs to data set 'toy', not 'other'"):
        load_params(tmp_path, datasets=datasets, runs=_run(dataset="other"))
    texts = {**PARAMS["texts"], "plain": {"dataset": "other", "method": "words"}}
    assert load_params(tmp_path, datasets=datasets, texts=texts).texts["plain"].dataset == "other"


@pytest.mark.parametrize("text", ["lr: 1e-05", "lr: 0.00001"])
def test_floats_as_dvc_writes_them(tmp_path, text):
    path = write_params(tmp_path)
    path.write_text(path.read_text().replace("lr: 0.01", text))
    assert load(path).runs["sum"].train.lr == 1e-5


DEEP = pytest.param("a=" + "[" * 2000, id="deep")


@pytest.mark.parametrize("text", ["train.lr", "seed.deep=1", "train.lr=[1", DEEP])
def test_malformed_overrides(tmp_path, text):
    with pytest.raises(UsageError, match="--set"):
        load(write_params(tmp_path), [text])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a mapping of sections, got NoneType"),
        (b"seed: \xff\n", "not valid YAML: 'utf-8'"),
        pytest.param(b"seed: " + b"{a: " * 5000, "not valid YAML", id="deep mappings"),
    ],
)
def test_files_that_are_no_parameters(tmp_path, content, message):
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(ParamsError, match=message):
        load(path)


def test_a_row_of_no_paper_is_named_with_its_address(tmp_path):
    with pytest.raises(ParamsError, match=r"params.yaml runs.sum.row: .*2\.99"):
        load_params(tmp_path, runs=_run(row="hal-aaai2020 2.99"))


def test_the_engine_is_a_section_on_which_no_stage_depends(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text() + "\nengine: {name: ray, workers: 2}\n")
    assert load(path).engine == EngineParams(name="ray", workers=2)
    with pytest.raises(ParamsError, match=r"engine.name: .*'local' or 'ray'"):
        load(path, ["engine.name=rya"])
    stages = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"].values()
    named = [key for stage in stages for key in stage.get("do", stage).get("params", [])]
    assert len(named) > 20
    assert [key for key in named if str(key).startswith("engine")] == []


@pytest.fixture
def params(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text())
    return path


def test_all_criteria_are_one_overlay_that_leaves_the_rest_as_it_is(params):
    before = load(params)
    overlay.apply(params, "all_criteria", [])
    loaded = load(params)
    assert replace(loaded, grid=before.grid, inference=before.inference) == before
    assert before.grid.inferences == ["nns", "is", "csls", "rgm"]
    parts = {part for name in loaded.grid.inferences for part in name.split("+")}
    assert parts == set(INFERENCES.names()) - {"hungarian"}, "which is for some thousand items at most"


@pytest.mark.parametrize("name", [name for name in overlay.names() if name != "all_criteria"])
def test_every_packaged_overlay_validates_and_replaces_the_nodes(params, name):
    overlay.apply(params, name, [])
    loaded, content = load(params), read_document(overlay.find(name))
    for section in ("datasets", "features", "texts", "noises"):
        assert list(dict.fromkeys(map(run_entry, getattr(loaded, section)))) == list(content[section]), section
    assert list(dict.fromkeys(map(run_entry, loaded.runs))) == list(content["runs"])
    assert not re.search("[&*]id", params.read_text()), "what runs share is written out"


def test_a_packaged_sweep_takes_the_values_of_its_paper(params):
    overlay.apply(params, "sweep_k", [])
    loaded = load(params)
    node = loaded.report.sweeps["k"]
    assert [loaded.number(run, node.x) for run in node.runs] == [1, 2, 3, 5, 10, 20]
    drawn = (run for one in loaded.report.sweeps.values() for run in (*one.runs, *one.baselines))
    assert set(loaded.runs) == set(drawn)


def test_audits_ensembles_and_sweeps_leave_with_the_runs_they_name_and_with_them_alone(params, tmp_path):
    overlay.apply(params, "sweep_epoch", [])
    (tmp_path / "own.yaml").write_text("report: {title: mine}\n")
    overlay.apply(params, str(tmp_path / "own.yaml"), [])
    assert list(load(params).report.sweeps) == ["convergence"]
    overlay.apply(params, "sweep_epoch", ["report.audits=[sum, hal]"])
    assert load(params).report.audits == ["sum", "hal"]
    overlay.apply(params, "sweep_k", [])
    assert load(params).report.audits == []
    assert "audits: []" in params.read_text()
    overlay.apply(params, "sweep_epoch", ["ensembles={both: {runs: [sum, hal]}}"])
    assert list(load(params).ensembles) == ["both"]
    overlay.apply(params, "sweep_k", [])
    assert load(params).ensembles == {}
    assert "ensembles: {}" in params.read_text()


def test_values_of_set_are_written_and_what_nothing_is_added_to_keeps_its_comments(params, tmp_path):
    text = params.read_text()
    own = "ensembles:\n  # why these two\n  both: {runs: [sum, hal]}  # a pair\n"
    params.write_text(re.sub(r"^ensembles: \{\}.*\n", own, text, flags=re.MULTILINE))
    assert own in params.read_text()
    overlay.add(params, {"loss": {"hal": {"gamma": 7.0}}})
    assert own in params.read_text()
    assert load(params).runs["hal"].loss.params.gamma == 7.0
    path = tmp_path / "own.yaml"
    path.write_text("loss: {hal: {gamma: 8.0}}\n")
    overlay.apply(params, str(path), [])
    assert load(params).runs["hal"].loss.params.gamma == 8.0
    assert load(params).runs["sum"].loss.params.margin > 0
    overlay.apply(params, "flickr8k_precomp", ["datasets.flickr8k_precomp.source=/some/where", "train.embed_size=64"])
    loaded = load(params)
    assert loaded.datasets["flickr8k_precomp"].source == "/some/where"
    assert loaded.runs["hal/1"].train.embed_size == 64
    assert "# --- families" in params.read_text()
    with pytest.raises(UsageError, match="did you mean 'flickr8k'"):
        overlay.apply(params, "flickr8", [])


MISTAKES = {
    "replace: rnus\n": r"bad\.yaml replace: expected nodes, got 'rnus'",
    "train: {epochs: no}": r"params\.yaml train\.epochs",
    "- 1": "expected a mapping",
}


@pytest.mark.parametrize("content", MISTAKES)
def test_a_bad_overlay_changes_nothing(params, content):
    before, bad = params.read_bytes(), params.with_name("bad.yaml")
    bad.write_text(content)
    with pytest.raises(ParamsError, match=MISTAKES[content]):
        overlay.apply(params, str(bad), [])
    assert params.read_bytes() == before
    assert sorted(path.name for path in params.parent.iterdir()) == ["bad.yaml", "params.yaml"]


RUN = "{dataset: shapes, features: filters, texts: words, noise: clean, loss: max, scheme: plain, similarity: cosine, text: gru, image: linear}"


def test_entries_join_those_before(params, tmp_path):
    overlay.apply(params, "sweep_epoch", ["report.audits=[sum]"])
    own = tmp_path / "own.yaml"
    own.write_text(f"runs:\n  own: {RUN}\n  max: {RUN}\n")
    overlay.apply(params, str(own), ["runs.max.options={loss: {margin: 0.3}}"])
    loaded = load(params)
    assert list(loaded.runs) == ["sum", "max", "hal", "own"]
    assert loaded.runs["max"].loss.params.margin == 0.3
    assert loaded.report.audits == ["sum"]
    overlay.apply(params, str(own), [])
    assert load(params).runs["max"].loss.params.margin == 0.2, "an entry of the same name is replaced whole"
