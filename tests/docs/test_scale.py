"""The page's model is within a fifth of its measured points."""

import re

import pytest

from tests.rules.sources import ROOT

PAGE = (ROOT / "docs/scale.md").read_text(encoding="utf-8")


def _rows(heading: str, number: int = 0) -> list[list[str]]:
    """Cells of a table below a heading, the first without ``number``, less its first two lines."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = re.findall(r"(?:^\|.*\|\n)+", section, re.M)[number]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def _numbers(cells: list[str]) -> list[float]:
    return [float(cell.replace(",", "")) for cell in cells]


MODEL = {stage: _numbers(cells[1:5]) for stage, *cells in _rows("The model")}
POINTS = _rows("Measured")
CRITERIA = {criterion: _numbers(cells) for criterion, *cells in _rows("Evaluation")}
RANKED = _rows("Evaluation", 1)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[0]}-{point[1]}")
def test_points(point: list[str]) -> None:
    start, each, base, bytes_ = MODEL[point[0]]
    items, seconds, peak = _numbers(point[1:])
    assert seconds == pytest.approx(start + each * items / 10**6, rel=0.2)
    assert peak == pytest.approx(base + bytes_ * items / 2**20, rel=0.2)


@pytest.mark.parametrize("point", RANKED, ids=lambda point: f"{point[0]}-{point[1]}")
def test_points_of_evaluation(point: list[str]) -> None:
    start, each, base, bytes_ = CRITERIA[point[0]]
    images, captions = _numbers(point[1].split(" x "))
    seconds, peak = _numbers(point[2:])
    assert seconds == pytest.approx(start + each * images * captions / 10**9, rel=0.2)
    assert peak == pytest.approx(base + bytes_ * (images + captions) / 2**20, rel=0.2)


@pytest.mark.parametrize(("model", "points"), [(MODEL, POINTS), (CRITERIA, RANKED)], ids=["stages", "evaluation"])
def test_everything_has_points_of_several_sizes(model: dict, points: list[list[str]]) -> None:
    sizes = {name: {point[1] for point in points if point[0] == name} for name in model}
    assert min(map(len, sizes.values())) >= 2
