"""Our figures beside a paper's."""

import dataclasses
import json

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import RECALLS
from vse_pipe.papers.overlay import (
    cautions,
    compared_figures,
    overlay,
    rows_of_model,
    run_name,
    setting_differences,
)
from vse_pipe.project.params.load import load

METRICS = {
    "protocol": "folds",
    "image_to_text": {"r@1": 60.5, "r@5": 88.0, "r@10": 95.0, "med_r": 1.0, "mean_r": 3.25, "map": 1.0},
    "text_to_image": {"r@1": 46.5, "r@5": 79.0, "r@10": 88.0, "med_r": 2.0, "mean_r": 9.0},
    "rsum": 457.0,
    "hs_sum": 11.0,
}


def test_ours_stands_beside_every_printed_figure():
    assert compared_figures("hal-rgm-emnlp 2.12", METRICS) == [
        *[("i2t R@1", 61.9, 60.5, -1.4), ("i2t R@5", 88.8, 88.0, -0.8), ("i2t R@10", 95.2, 95.0, -0.2)],
        *[("i2t Med r", 1.0, 1.0, 0.0), ("i2t Mean r", 3.0, 3.25, 0.25)],
        *[("t2i R@1", 46.4, 46.5, 0.1), ("t2i R@5", 79.0, 79.0, 0.0), ("t2i R@10", 88.9, 88.0, -0.9)],
        *[("t2i Med r", 2.0, 2.0, 0.0), ("t2i Mean r", 7.6, 9.0, 1.4)],
        *[("rsum", 460.2, 457.0, -3.2), ("hs-sum", 12.42, 11.0, -1.42)],
    ]


def test_another_criterion_has_its_own_row():
    assert compared_figures("hal-rgm-emnlp 2.12", METRICS, "csls")[0] == ("i2t R@1", 65.6, 60.5, -5.1)
    assert compared_figures("hal-aaai2020 2.12", METRICS, "csls") == []
    ids = {"nns": "1.3", "gm": "4.2", "rgm": "4.3", "is": "4.4", "csls": "4.5", "is+rgm": "4.6", "csls+rgm": "4.7"}
    assert {name: entry.id for name, entry in rows_of_model("hal-rgm-emnlp 1.3").items()} == ids


DEMO = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
ENTRY = catalogue.find("hal-aaai2020", "2.12")


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(json.dumps({**DEMO, **overlay(ENTRY.paper, ENTRY.id)}))
    return load(path).runs[run_name(ENTRY)]


def test_a_row_as_it_is_applied_differs_in_nothing_nor_does_how_a_step_is_computed(run):
    assert setting_differences(ENTRY, run) == cautions(ENTRY.marker, {}, run) == []
    train = run.train.model_copy(update={"chunk": 16, "precision": "bfloat16"})
    assert setting_differences(ENTRY, dataclasses.replace(run, train=train)) == []
    assert setting_differences(catalogue.find("hal-aaai2020", "2.15"), run) == [], "quoted, it has no settings"


def test_what_differs_is_named_with_both_values(run):
    plain = load(ROOT / "params.yaml").runs["sum"]
    bank = run.scheme.params.model_copy(update={"share": 0.5})
    train, scheme = run.train.model_copy(update={"lr": 0.5}), dataclasses.replace(run.scheme, params=bank)
    changed = dataclasses.replace(run, dataset="shapes", loss=plain.loss, scheme=scheme, train=train)
    expected = [
        "dataset shapes here, coco in the row",
        "loss sum here, hal in the row",
        "scheme.share 0.5 here, 0.05 in the row",
        f"train.lr 0.5 here, {ENTRY.settings.train['lr']} in the row",
    ]
    assert setting_differences(ENTRY, changed) == expected
    assert cautions(ENTRY.marker, {}, changed) == [f"the run is not the row: {'; '.join(expected)}"]


ENTRIES = [entry for paper in catalogue.names() for entry in catalogue.entries(paper) if ":" not in entry.id]


@pytest.mark.parametrize("paper", catalogue.names())
def test_figures_are_possible_unless_said_to_be_misprinted(paper):
    """Ranks from one, recalls that are percentages and grow with k, and a sum that is theirs."""
    falling, own = set(), [entry for entry in ENTRIES if entry.paper == paper]
    for entry in own:
        assert entry.published, entry.id
        assert all(n >= 1 for name, n in entry.published.items() if name.endswith(("medr", "meanr"))), entry.id
        for way in ("i2t", "t2i", "phrase"):
            names = [f"{way}.r{k}" for k in (1, 5, 10)]
            recalls = [entry.published[name] for name in names if name in entry.published]
            assert all(0 <= value <= 100 for value in recalls), entry.id
            falling |= {entry.id} if recalls != sorted(recalls) else set()
        expected = None
        if all(name in entry.published for name in (*RECALLS, "rsum")):
            total = sum(entry.published[name] for name in RECALLS)
            expected = round(total, 1) if abs(total - entry.published["rsum"]) > 0.3 + 1e-9 else None
        assert entry.row.printed_rsum_differs == expected, entry.id
    assert falling == {entry.id for entry in own if entry.row.note.endswith("as printed")}


@pytest.mark.parametrize(
    ("paper", "row", "figures"),
    [
        ("hal-aaai2020", "2.12", {"i2t.r1": 64.0, "i2t.meanr": 2.8, "t2i.r10": 89.9, "rsum": 466.7}),
        ("hal-rgm-emnlp", "2.12", {"i2t.r1": 61.9, "hs_sum": 12.42}),
        ("vsepp", "1.11", {"i2t.r1": 64.6, "t2i.r1": 52.0, "t2i.medr": 1.0}),
        ("structure-preserving-cvpr2016", "3d-mined", {"phrase.r1": 43.89, "phrase.map": 47.72}),
        ("l2rm-cvpr2024", "f30k-20-l2rm-sgraf", {"i2t.r1": 77.9, "rsum": 503.8}),
    ],
)
def test_figures_read_by_hand(paper, row, figures):
    published = catalogue.find(paper, row).published
    assert {name: published[name] for name in figures} == figures


@pytest.mark.parametrize(
    ("paper", "rows"),
    [
        ("hal-aaai2020", 34),  # 8 and 26
        ("hal-rgm-emnlp", 50),  # 6, 23 and 21; Table 3 repeats Table 4
        ("vsepp", 42),  # 14, 6, 17 and 5; six rows stand in Tables 1 and 2
        ("structure-preserving-cvpr2016", 38),  # 17, 12 and 9
        ("l2rm-cvpr2024", 181),  # Tables 6, 7, 2, 8: 112, 26, 14, 12; 5, 4 and 8 of 3, 4 and 9 are not in Table 6
    ],
)
def test_no_row_is_missing(paper, rows):
    assert sum(entry.paper == paper for entry in ENTRIES) == rows
