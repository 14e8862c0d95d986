"""The charts of the report, and the library that draws them."""

import numpy as np
import pandas as pd
import pytest
import vl_convert

from vse_pipe.report import charts
from vse_pipe.report.settings import Point


def test_learning_curves_mark_the_best_epoch_and_name_each_run_and_epoch_once():
    histories = {
        "sum": pd.DataFrame({"epoch": [1, 2, 3], "val_rsum": [10.0, 30.0, 20.0], "loss": [3.0, 2.0, 1.0]}),
        "a.b-c": pd.DataFrame({"epoch": [1, 2], "val_rsum": [5.0, 6.0], "loss": [0.0, 0.0]}),
    }
    spec = charts.validation(histories)
    assert not {"$schema", "config"} & set(spec), "no address of a schema and no theme"
    assert [(row["run"], row["epoch"]) for row in spec["data"]["values"] if row["kept"]] == [("sum", 2), ("a.b-c", 2)]
    assert [drawn(spec).count(f">{run}<") for run in histories] == [1, 1]
    losses = drawn(charts.training(histories["sum"]))
    assert [losses.count(f">{epoch}</text>") for epoch in "123"] == [1, 1, 1]
    assert "<path" in drawn(charts.training(histories["a.b-c"])), "a loss of zero"


@pytest.mark.parametrize(
    ("epochs", "ticks"), [([1, 2, 3], [1, 2, 3]), ([3, 4], [3, 4]), ([1], [1]), (range(1, 31), [5, 10, 15, 20, 25, 30])]
)
def test_ticks_of_epochs_are_whole_and_few(epochs, ticks):
    assert charts.epochs_axis(list(epochs)).to_dict()["axis"]["values"] == ticks


def test_the_library_matches_what_altair_writes():
    assert "vegaEmbed" in charts.library()
    assert charts.library() is charts.library()


def point(x, run, rsum, interval=None):
    return Point(x, run, rsum, interval, 0.0, 1)


def marked(spec, kind):
    """The layers with marks of one kind."""
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


def drawn(spec):
    """The chart as Vega would draw it: raises where the specification is not valid."""
    return vl_convert.vegalite_to_svg(spec)


def test_a_sweep_has_a_point_a_run_and_a_tick_a_value():
    points = [point(1, "a", 10.0), point(5, "b", 14.0), point(5, "c", 12.0), point(20, "d", 11.0)]
    spec = charts.sweep(points, [], "k of HAL", "loss.k")
    rows = (marked(spec, "point")[0].get("data") or spec["data"])["values"]
    assert [(row["x"], row["run"], row["rsum"]) for row in rows] == [(p.x, p.run, p.rsum) for p in points]
    assert marked(spec, "point")[0]["encoding"]["x"]["axis"]["values"] == [1, 5, 20]
    svg = drawn(spec)
    assert svg.count('aria-roledescription="point"') == 4
    assert all(f">{value}<" in svg for value in ("1", "5", "20", "k of HAL"))


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 2, 8], "log"), ([1, 2, 7], "linear"), ([0, 1, 100], "linear"), ([-1, 8], "linear"), ([3], "linear")],
)
def test_values_chosen_by_their_ratio_have_a_log_axis(values, kind):
    spec = charts.sweep([point(x, f"r{x}", 1.0 * x) for x in values], [], "x", "x")
    assert marked(spec, "point")[0]["encoding"]["x"]["scale"]["type"] == kind
    assert drawn(spec)


def test_baselines_are_level_lines_and_intervals_are_drawn():
    points = [point(1, "a", 10.0), point(2, "b", 14.0)]
    svg = drawn(charts.sweep(points, [point(None, "without", 9.0), point(None, "other", 15.0)], "k", "loss.k"))
    assert svg.count('aria-roledescription="rule mark"') == 2
    assert [svg.count(f">{name}<") for name in ("loss.k", "without", "other")] == [1, 1, 1]
    assert ">loss.k<" not in drawn(charts.sweep(points, [], "k", "loss.k"))
    points = [point(1, "a", 10.0, (8.0, 13.0)), point(2, "b", 14.0), point(3, "c", 11.0, (9.0, 12.0))]
    spec = charts.sweep(points, [], "k", "loss.k")
    assert drawn(spec).count('aria-roledescription="rule mark"') == 2
    assert not marked(charts.sweep(points[1:2], [], "k", "loss.k"), "rule")


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


def test_before_and_after_are_two_lines_and_items_that_nothing_finds_none():
    after, before = np.array([1, 1, 2]), np.array([0, 0, 4])
    spec = charts.distribution(after, before, charts.extent([after, before]))
    mean, old, new = layers(spec)
    assert mean == [{"n": pytest.approx(4 / 3)}]
    assert [row["items"] for row in old] == [1]
    assert [row["items"] for row in new] == [2, 1]
    assert layers(charts.distribution(after, None, charts.extent([after])))[1] == []
    nothing = np.zeros(4, int)
    spec = charts.distribution(nothing, nothing, charts.extent([nothing]))
    assert layers(spec) == [[], [], []]
    assert vl_convert.vegalite_to_svg(spec)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The bundles made from here on, kept in a folder of the test."""
    calls = []

    def bundle(vl_version: str) -> str:
        calls.append(vl_version)
        return f"script of {vl_version}, für"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    monkeypatch.setattr(charts, "cache_from_source", lambda source: str(tmp_path / "kept" / "vega.pyc"))
    return calls


def test_a_bundle_is_made_once_a_version(made, monkeypatch):
    assert [charts.bundle(one) for one in ("6.1", "6.1", "6.4", "6.1")] == [
        f"script of {one}, für" for one in ("6.1", "6.1", "6.4", "6.1")
    ]
    assert made == ["6.1", "6.4"]
    monkeypatch.setattr(charts, "version", lambda name: "999")
    charts.bundle("6.1")
    assert made == ["6.1", "6.4", "6.1"]


def test_where_nothing_can_be_kept_it_is_made_each_time(made, tmp_path):
    (tmp_path / "kept").write_text("a file where the folder would be", encoding="utf-8")
    assert charts.bundle("6.1") == charts.bundle("6.1") == "script of 6.1, für"
    assert made == ["6.1", "6.1"]
