"""The figures of every row: what must hold of printed numbers, and a few that were read by hand."""

import pytest

from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import RECALLS

ENTRIES = [entry for paper in catalogue.names() for entry in catalogue.entries(paper) if ":" not in entry.id]


PAPERS = pytest.mark.parametrize("paper", catalogue.names())


def of(paper):
    return [entry for entry in ENTRIES if entry.paper == paper]


@PAPERS
def test_recalls_are_percentages_that_grow_with_k_unless_misprinted(paper):
    assert all(entry.published for entry in of(paper))
    falling = set()
    for entry in of(paper):
        for way in ("i2t", "t2i", "phrase"):
            names = [f"{way}.r{k}" for k in (1, 5, 10)]
            recalls = [entry.published[name] for name in names if name in entry.published]
            assert all(0 <= value <= 100 for value in recalls), entry.id
            falling |= {entry.id} if recalls != sorted(recalls) else set()
    assert falling == {entry.id for entry in of(paper) if entry.row.note.endswith("as printed")}


@PAPERS
def test_rsum_is_the_sum_of_the_recalls_or_said_to_differ(paper):
    for entry in of(paper):
        expected = None
        if all(name in entry.published for name in (*RECALLS, "rsum")):
            total = sum(entry.published[name] for name in RECALLS)
            expected = round(total, 1) if abs(total - entry.published["rsum"]) > 0.3 + 1e-9 else None
        assert entry.row.printed_rsum_differs == expected, entry.id


@PAPERS
def test_ranks_start_at_one(paper):
    ranks = [
        value for entry in of(paper) for name, value in entry.published.items() if name.endswith(("medr", "meanr"))
    ]
    assert all(value >= 1 for value in ranks)


@pytest.mark.parametrize(
    ("paper", "row", "figures"),
    [
        ("hal-aaai2020", "1.1", {"i2t.r1": 30.0, "t2i.meanr": 47.5, "rsum": 291.0}),
        ("hal-aaai2020", "2.12", {"i2t.r1": 64.0, "i2t.meanr": 2.8, "t2i.r10": 89.9, "rsum": 466.7}),
        ("hal-rgm-emnlp", "2.12", {"i2t.r1": 61.9, "hs_sum": 12.42}),
        ("hal-rgm-emnlp", "4.14", {"i2t.r10": 91.4, "t2i.r1": 40.4, "rsum": 429.1}),
        ("vsepp", "1.11", {"i2t.r1": 64.6, "t2i.r1": 52.0, "t2i.medr": 1.0}),
        ("structure-preserving-cvpr2016", "1b6", {"i2t.r1": 40.3, "t2i.r10": 72.1}),
        ("structure-preserving-cvpr2016", "3d-mined", {"phrase.r1": 43.89, "phrase.map": 47.72}),
        ("l2rm-cvpr2024", "f30k-20-l2rm-sgraf", {"i2t.r1": 77.9, "rsum": 503.8}),
        ("l2rm-cvpr2024", "coco-20-l2rm-sgraf", {"i2t.r1": 80.2, "rsum": 524.7}),
        ("l2rm-cvpr2024", "coco5k-80-l2rm-sgr", {"i2t.r1": 42.6, "rsum": 347.6}),
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
        (
            "l2rm-cvpr2024",
            181,
        ),  # Table 6 has 112, 7 has 26, 2 has 14, 8 has 12; 5, 4 and 8 of 3, 4 and 9 are not in Table 6
    ],
)
def test_no_row_is_missing(paper, rows):
    assert sum(entry.paper == paper for entry in ENTRIES) == rows
