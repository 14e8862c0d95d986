"""The page's model is its own formula of its own coefficients, and within a fifth of its own measured points."""

import re

import pytest

from tests.rules.sources import ROOT

PAGE = (ROOT / "docs/scale.md").read_text(encoding="utf-8")


def _rows(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its first two lines."""
    section = PAGE.split(f"\n## {heading}\n")[1]
    lines = re.findall(r"^\|.*\|$", section.split("\n## ")[0], re.M)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


MODEL = {stage: tuple(map(float, cells[1:5])) for stage, *cells in _rows("The model")}
POINTS = _rows("Measured")


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[0]}-{point[1]}")
def test_points(point: list[str]) -> None:
    start, each, base, bytes_ = MODEL[point[0]]
    items = float(point[1].replace(",", ""))
    seconds, told, peak, told_peak = (float(cell.replace(",", "")) for cell in point[2:6])
    assert told == pytest.approx(start + each * items / 10**6, rel=0.02, abs=0.06)
    assert told_peak == pytest.approx(base + bytes_ * items / 2**20, rel=0.01, abs=0.6)
    assert seconds == pytest.approx(told, rel=0.2)
    assert peak == pytest.approx(told_peak, rel=0.2)


def test_every_stage_has_points_of_several_sizes() -> None:
    sizes = {stage: {point[1] for point in POINTS if point[0] == stage} for stage in MODEL}
    assert min(map(len, sizes.values())) >= 2
