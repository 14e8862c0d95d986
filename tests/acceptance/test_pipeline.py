"""The whole pipeline under DVC: what runs, what is cached, and the commands that compare experiments.

The tests of this file build on each other, in order, as an afternoon with the tool does.
"""

import json
import re

import pytest
from ruamel.yaml import YAML

from tests.small_project import Project, clone, set_params

pytestmark = pytest.mark.acceptance

SMALL = [
    *["datasets.shapes.train=30", "datasets.shapes.val=12", "datasets.shapes.test=12"],
    *["train.epochs=2", "train.embed_size=16", "train.batch_size=32", "grid.inferences=[nns, is+rgm]"],
    *["runs.max=null", "report.examples=2", "report.audits=[hal]", "evaluate.resamples=20"],
    "ensembles={both: {runs: [sum, hal]}}",
    "datasets.other={format: shapes, source: pipeline/vse_pipe/prepare/scene.py, train: 8, val: 4, test: 12}",
    "features.other={dataset: other, backbone: random_filters}",
    "transfers={moved: {run: hal, dataset: other, features: other}}",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return clone(tmp_path_factory.mktemp("clone") / "project", SMALL)


def _ran(output: str) -> set[str]:
    """Stages whose command DVC executed, but for the one that lists files from outside each time."""
    return set(re.findall(r"Running stage '([^']+)'", output)) - {"sources"}


def _metrics(project) -> dict:
    return json.loads((project.root / "reports" / "metrics.json").read_text())


@pytest.fixture(scope="module")
def first(project) -> str:
    output = project.run("dvc", "repro")
    project.commit("first results")
    return output


def test_the_first_call_runs_every_stage_and_the_second_none(project, first):
    of_runs = {"train@sum", "train@hal", "embed@hal", "evaluate@sum", "audit@hal"}
    joined = {"evaluate_ensembles@both", "embed_transfers@moved", "evaluate_transfers@moved"}
    assert {"prepare@shapes", "inject@clean", "report"} | of_runs | joined <= _ran(first)
    metrics = _metrics(project)
    assert set(metrics) == {"sum", "hal", "both", "moved"}
    assert metrics["moved"]["transfer"].items() >= {"run": "hal", "trained_on": "shapes", "dataset": "other"}.items()
    assert set(metrics["sum"]) == {"data", "nns", "is+rgm"}
    assert "is+rgm" in (project.root / "reports" / "index.html").read_text()
    assert _ran(project.run("dvc", "repro")) == set(), "the second call does nothing"
    assert project.run("git", "status", "--porcelain") == ""


def test_the_same_seed_gives_the_same_bytes(project, first):
    names = ["data/train/sum/model.safetensors", "reports/index.html"]
    before = {name: (project.root / name).read_bytes() for name in names}
    project.run("dvc", "repro", "--force", "--single-item", "train@sum", "report")
    assert {name: (project.root / name).read_bytes() for name in names} == before
    assert project.run("git", "status", "--porcelain") == ""


def test_hals_parameters_rerun_only_hals_stages(project, first):
    params = project.root / "params.yaml"
    text = params.read_text()
    params.write_text(text.replace("gamma: 20.0", "gamma: 60.0"))
    assert text != params.read_text()
    ran = _ran(project.run("dvc", "repro"))
    moved = {"embed_transfers@moved", "evaluate_transfers@moved"}
    after_training = {"embed@hal", "evaluate@hal", "evaluate_ensembles@both", "audit@hal"} | moved
    assert ran == {"train@hal", *after_training, "report"}
    table = project.run("dvc", "metrics", "diff", "--md")
    assert "hal" in table
    assert "sum.nns" not in table


def test_hals_code_trains_only_hal_anew(project, first):
    """DVC calls every training after an edit in the room; the run whose code is as it was returns at once."""
    module = project.root / "pipeline/vse_pipe/train" / "losses" / "hal.py"
    text, models = module.read_text(), project.root / "data" / "train"
    finished = {run: (models / run / "made_from.json").read_text() for run in ("sum", "hal")}
    module.write_text(text + "\n# edited\n")
    stages = set(re.findall(r"^(\S+):$", project.run("dvc", "status"), flags=re.M))
    assert {"train@hal", "train@sum", "audit@hal"} <= stages
    assert not {name for name in stages if name.partition("@")[0] in ("prepare", "extract", "inject", "evaluate")}
    # By DVC, whose commands take the code of this folder.
    project.run("dvc", "repro", "--single-item", "train@sum", "train@hal")
    module.write_text(text)
    assert (models / "sum/made_from.json").read_text() == finished["sum"]
    assert (models / "hal/made_from.json").read_text() != finished["hal"]
    project.run("dvc", "repro", "--single-item", "train@sum", "train@hal")
    assert (models / "hal/made_from.json").read_text() == finished["hal"]


def test_an_entry_taken_out_leaves_no_row_and_a_seed_more_trains_that_seed_alone(project, first):
    params = project.root / "params.yaml"
    text, models = params.read_text(), project.root / "data" / "train" / "few"
    params.write_text(text.replace(", is+rgm", ""))
    assert params.read_text() != text
    few = {**YAML(typ="safe").load(text)["runs"]["sum"], "seeds": [1, 2]}
    set_params(params, [f"runs.few={json.dumps(few)}"])
    # An ensemble depends on data/embed as a whole.
    stages = {"train@few", "embed@few", "evaluate@few", "evaluate_ensembles@both", "report"}
    assert _ran(project.run("dvc", "repro")) == stages | {"evaluate@sum", "evaluate@hal", "evaluate_transfers@moved"}
    assert set(_metrics(project)["sum"]) == {"data", "nns"}
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in models.glob("*/model.safetensors")}
    assert (models / "1/model.safetensors").read_bytes() == (models / "../sum/model.safetensors").read_bytes()
    set_params(params, ["runs.few.seeds=[3, 1, 2]"])
    said = project.run("dvc", "repro")
    assert _ran(said) == stages
    assert re.findall(r"^train (\S+): best epoch", said, flags=re.M) == ["few/3"]
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in before} == before
    assert len(before) == 2
    assert _metrics(project)["few"]["seeds"] == [3, 1, 2]
    assert project.run("dvc", "status").split() == ["sources:", "always", "changed"]
    project.run("vse-pipe", "check")
    params.write_text(text)
