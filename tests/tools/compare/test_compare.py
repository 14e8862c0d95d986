"""--max-drop fails on what fell, by more than allowed and significantly, and on nothing else."""

import json
from dataclasses import replace

import pytest

from tests.tools.compare.project import evaluation
from vse_pipe.core.errors import Regression
from vse_pipe.ranking.comparison import Comparison, FigureRow, Method
from vse_pipe.tools import compare


def _comparison(*rows: FigureRow) -> Comparison:
    one = Method.single(evaluation())
    return Comparison(one, one, 40, list(rows))


def _row(address, b, p=0.01, a=50.0):
    return FigureRow(address, a, b, [b - a - 1, b - a + 1], p)


WATCHED = [("image_to_text", name) for name in ("r@1", "r@5", "r@10", "mrr", "map")] + [
    ("text_to_image", "r@1"),
    ("rsum",),
]


@pytest.mark.parametrize("address", WATCHED)
def test_a_significant_fall_fails(address):
    with pytest.raises(
        Regression, match=f"nns: {' '.join(address)} fell by 1.50 .50.00 to 48.50, p = 0.010.; allowed is 1$"
    ):
        compare.check([_comparison(_row(address, 48.5))], 1.0)


@pytest.mark.parametrize(
    "row",
    [
        _row(("rsum",), 49.0),
        _row(("rsum",), 60.0),
        _row(("rsum",), 30.0, p=0.05),
        _row(("text_to_image", "skew@10"), 1.0),
        _row(("text_to_image", "largest_hub@10"), 1.0),
        _row(("text_to_image", "med_r"), 1.0),
        _row(("hs_sum",), 1.0),
        FigureRow(("text_to_image", "r@1"), 50.0, 1.0, None, None),
    ],
)
def test_anything_else_passes(row):
    compare.check([_comparison(row)], 1.0)


def test_every_fall_of_every_criterion_is_named():
    rows = [_row(("image_to_text", "r@1"), 40.0), _row(("rsum",), 45.0), _row(("image_to_text", "r@5"), 50.0)]
    with pytest.raises(Regression) as failure:
        compare.check([_comparison(*rows), _comparison(rows[0])], 0.0)
    assert [line.split(" fell")[0] for line in str(failure.value).splitlines()] == [
        "nns: image_to_text r@1",
        "nns: rsum",
        "nns: image_to_text r@1",
    ]


def test_the_corrected_p_value_decides_and_is_named():
    row = replace(_row(("rsum",), 40.0, p=0.01), holm=0.03)
    with pytest.raises(Regression, match=r"p = 0\.030"):
        compare.check([_comparison(row)], 1.0)
    compare.check([_comparison(replace(row, holm=0.06))], 1.0)


ROWS = [
    FigureRow(("image_to_text", "r@1"), 41.254, 39.75, [-2.5, -0.254], 0.01249),
    FigureRow(("text_to_image", "gini@10"), 0.51249, 0.51251, [-0.0004, 0.1], 0.5),
    FigureRow(("hs_sum",), 12.0, 11.9999999, None, None),
]


@pytest.fixture
def comparison():
    return Comparison(
        Method.single(evaluation("a|b", {"bank": "val"})),
        Method.single(evaluation("[b]", {"bank": "test"})),
        1000,
        ROWS,
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
