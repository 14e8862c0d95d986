"""What a comparison looks like, cell by cell."""

import json

import pytest

from tests.tools.compare.project import evaluation
from vse_pipe.ranking.comparison import Comparison, FigureRow, Method
from vse_pipe.tools.compare import compare

ROWS = [
    FigureRow(("image_to_text", "r@1"), 41.254, 39.75, [-2.5, -0.254], 0.01249),
    FigureRow(("text_to_image", "gini@10"), 0.51249, 0.51251, [-0.0004, 0.1], 0.5),
    FigureRow(("hs_sum",), 12.0, 11.9999999, None, None),
]


@pytest.fixture
def comparison():
    return Comparison(
        Method.of(evaluation("a|b", {"bank": "val"})), Method.of(evaluation("[b]", {"bank": "test"})), 1000, ROWS
    )


def test_markdown(comparison):
    lines = compare.markdown([comparison], 500, 3).splitlines()
    assert lines[0] == "### A: a|b (nns), B: [b] (nns)"
    assert lines[2] == "| metric | A | B | B - A | 95% interval | p |"
    assert lines[4:7] == [
        "| i2t r@1 | 41.25 | 39.75 | -1.50 | -2.50 to -0.25 | 0.012 |",
        "| t2i gini@10 | 0.512 | 0.513 | +0.000 | +0.000 to +0.100 | 0.500 |",
        "| hs-sum | 12.00 | 12.00 | +0.00 | - | - |",
    ]
    assert lines[8] == (
        "test split, protocol full, ties pessimistic, query bank val in A, test in B; "
        "500 draws of 1000 images with their captions, seed 3; p of each figure by itself, two-sided"
    )


def test_document(comparison):
    text = compare.document([comparison], 500, 3)
    (found,) = json.loads(text)["comparisons"]
    assert found["image_to_text"]["r@1"] == {
        "a": 41.254,
        "b": 39.75,
        "difference": -1.504,
        "interval": [-2.5, -0.254],
        "p": 0.01249,
    }
    assert found["hs_sum"] == {"a": 12.0, "b": 12.0, "difference": 0.0}
    assert "-0.0," not in text
    assert "-0.0\n" not in text
    assert (found["a"]["name"], found["a"]["bank"], found["b"]["bank"]) == ("a|b", "val", "test")


def test_terminal_shows_names_as_they_are(comparison, capsys, monkeypatch):
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 120)
    compare.terminal([comparison], 500, 3)
    out = capsys.readouterr().out
    assert "A: a|b (nns), B: [b] (nns)" in out
    assert "-2.50 to -0.25" in out
