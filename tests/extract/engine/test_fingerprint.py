"""What a feature file depends on."""

import pytest

from tests.toy_project import PARAMS, load_params, write_prepared
from vse_pipe.extract import job
from vse_pipe.project import code
from vse_pipe.project.registry import BACKBONES

# What ``extract`` runs besides and does not decide a number: how many images go at once, who computes which,
# parameters, and what puts finished parts together.
DECIDES_NOTHING = {"assemble", "merge", "policy", "recognise", "reuse", "spread", "work"}


def engine(modules: set[str]) -> set[str]:
    start = "vse_pipe.extract.engine."
    return {module.removeprefix(start) for module in modules if module.startswith(start)}


def test_all_code_that_an_extraction_runs_counts_or_is_known_to_decide_nothing() -> None:
    """A new module must be imported by the work on an image or a batch, or be named here."""
    work = code.closure(job._WORK)
    assert engine(code.closure(["vse_pipe.extract.stage"]) - work) == DECIDES_NOTHING


def test_members_do_not_share_what_they_do_not_use() -> None:
    networks = {name for name in engine(code.closure([BACKBONES.module("vgg19")])) if "networks." in name}
    assert networks == {"networks.classifier", "networks.torchvision"}
    work = code.closure(job._WORK)
    codes = {code.digest(work | code.closure([BACKBONES.module(name)])) for name in BACKBONES.names()}
    assert len(codes) == len(BACKBONES.names())


@pytest.mark.parametrize("name", ["vgg19", "precomp"])
def test_the_description_holds_the_digest_of_the_work_and_of_the_member(tmp_path, monkeypatch, name) -> None:
    monkeypatch.chdir(tmp_path)
    write_prepared()
    features = {**PARAMS["features"], "other": {"dataset": "toy", "backbone": name}}
    node = load_params(tmp_path, features=features).features["other"]
    described = job.own(node, "cpu", "float32", ["torch"])
    expected = code.closure([*job._WORK, BACKBONES.module(name)])
    assert described["code_sha256"] == code.digest(expected)
    assert set(described["libraries"]) == {"numpy", "torch"}


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert job.digest({"a": 1, "b": [2]}) == job.digest({"b": [2], "a": 1})
    assert job.digest({"a": 1}) != job.digest({"a": 2})
