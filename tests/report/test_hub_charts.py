import numpy as np
import pytest
import vl_convert

from vse_pipe.report import charts


def layers(spec):
    """Rows of the mean, of the line before and of the line after."""
    return [layer["data"]["values"] for layer in spec["layer"]]


def test_a_point_is_the_share_of_items_per_value():
    n = np.array([0, 0, 1, 1, 1, 2, 4, 5])
    assert charts.points(n) == [
        {"n": 1.0, "range": "1", "items": 3, "share": 0.375},
        {"n": 2.0, "range": "2", "items": 1, "share": 0.125},
        {"n": 4.472, "range": "4 to 5", "items": 2, "share": 0.125},
    ]


@pytest.mark.parametrize("largest", [0, 1, 5, 205, 9999])
def test_every_point_lies_on_the_axes_that_a_row_shares(largest):
    after, before = np.array([0, 1, largest // 2, largest]), np.array([0, 0, largest, largest])
    shared = charts.extent([after, before])
    spec = charts.distribution(after, before, shared)
    encoding = spec["layer"][2]["encoding"]
    assert (encoding["x"]["scale"]["type"], encoding["y"]["scale"]["type"]) == ("log", "log")
    for axis, key in (("x", "n"), ("y", "share")):
        low, high = encoding[axis]["scale"]["domain"]
        rows = [row for layer in layers(spec)[1:] for row in layer]
        assert all(low < row[key] < high for row in rows)
    drawn = vl_convert.vegalite_to_svg(spec)
    assert drawn.count('aria-roledescription="rule mark"') == 1


def test_before_and_after_are_told_apart():
    after, before = np.array([1, 1, 2]), np.array([0, 0, 4])
    spec = charts.distribution(after, before, charts.extent([after, before]))
    mean, old, new = layers(spec)
    assert mean == [{"n": pytest.approx(4 / 3)}]
    assert [row["items"] for row in old] == [1]
    assert [row["items"] for row in new] == [2, 1]
    assert layers(charts.distribution(after, None, charts.extent([after])))[1] == []


def test_items_that_nothing_finds_leave_an_empty_chart():
    nothing = np.zeros(4, int)
    spec = charts.distribution(nothing, nothing, charts.extent([nothing]))
    assert layers(spec) == [[], [], []]
    assert vl_convert.vegalite_to_svg(spec)
