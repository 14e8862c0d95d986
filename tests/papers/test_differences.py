import dataclasses
import json

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from vse_pipe.papers import catalogue
from vse_pipe.papers.compare import cautions, setting_differences
from vse_pipe.papers.overlay import overlay, run_name
from vse_pipe.project.params.load import load

DEMO = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
ENTRY = catalogue.find("hal-aaai2020", "2.12")


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(json.dumps({**DEMO, **overlay(ENTRY.paper, ENTRY.id)}))
    return load(path).runs[run_name(ENTRY)]


def test_a_row_as_it_is_applied_differs_in_nothing(run):
    assert setting_differences(ENTRY, run) == []
    assert cautions(ENTRY.marker, {}, run) == []


def test_how_a_step_is_computed_is_no_difference(run):
    train = run.train.model_copy(update={"chunk": 16, "precision": "bfloat16"})
    assert setting_differences(ENTRY, dataclasses.replace(run, train=train)) == []


def test_what_differs_is_named_with_both_values(run):
    plain = load(ROOT / "params.yaml").runs["sum"]
    bank = run.scheme.params.model_copy(update={"share": 0.5})
    changed = dataclasses.replace(
        run,
        dataset="shapes",
        loss=plain.loss,
        scheme=dataclasses.replace(run.scheme, params=bank),
        train=run.train.model_copy(update={"lr": 0.5}),
    )
    lr = ENTRY.settings.train["lr"]
    expected = [
        "dataset shapes here, coco in the row",
        "loss sum here, hal in the row",
        "scheme.share 0.5 here, 0.05 in the row",
        f"train.lr 0.5 here, {lr} in the row",
    ]
    assert setting_differences(ENTRY, changed) == expected
    assert cautions(ENTRY.marker, {}, changed) == [f"the run is not the row: {'; '.join(expected)}"]


def test_a_quoted_row_has_no_settings(run):
    assert setting_differences(catalogue.find("hal-aaai2020", "2.15"), run) == []
