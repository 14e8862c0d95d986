"""Charts and figures of the report, numbers as text, and the queries that are shown."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from vse_pipe.core.seeds import generator
from vse_pipe.report import bins, charts, vega
from vse_pipe.report.formatting import fixed, interval, percent, plural, signed, significant, thousands
from vse_pipe.report.picks import KINDS, change, mix
from vse_pipe.report.settings import Point


def test_learning_curves_and_sweeps_have_a_point_a_run_and_a_tick_a_value_and_level_lines():
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
    assert "vegaEmbed" in vega.library()
    assert vega.library() is vega.library()
    points = [point(1, "a", 10.0), point(5, "b", 14.0), point(5, "c", 12.0), point(20, "d", 11.0)]
    spec = charts.sweep(points, [], "k of HAL", "loss.k")
    rows = (marked(spec, "point")[0].get("data") or spec["data"])["values"]
    assert [(row["x"], row["run"], row["rsum"]) for row in rows] == [(p.x, p.run, p.rsum) for p in points]
    assert marked(spec, "point")[0]["encoding"]["x"]["axis"]["values"] == [1, 5, 20]
    svg = drawn(spec)
    assert svg.count('aria-roledescription="point"') == 4
    assert all(f">{value}<" in svg for value in ("1", "5", "20", "k of HAL"))
    points = [point(1, "a", 10.0), point(2, "b", 14.0)]
    svg = drawn(charts.sweep(points, [point(None, "without", 9.0), point(None, "other", 15.0)], "k", "loss.k"))
    assert svg.count('aria-roledescription="rule mark"') == 2
    assert [svg.count(f">{name}<") for name in ("loss.k", "without", "other")] == [1, 1, 1]
    assert ">loss.k<" not in drawn(charts.sweep(points, [], "k", "loss.k"))
    points = [point(1, "a", 10.0, (8.0, 13.0)), point(2, "b", 14.0), point(3, "c", 11.0, (9.0, 12.0))]
    spec = charts.sweep(points, [], "k", "loss.k")
    assert drawn(spec).count('aria-roledescription="rule mark"') == 2
    assert not marked(charts.sweep(points[1:2], [], "k", "loss.k"), "rule")


def point(x, run, rsum, interval=None):
    return Point(x, run, rsum, interval, 0.0, 1)


def marked(spec, kind):
    """The layers with marks of one kind."""
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


def drawn(spec):
    """The chart as Vega would draw it: raises where the specification is not valid."""
    return vl_convert.vegalite_to_svg(spec)


def layers(spec):
    """Rows of the mean, of the line before and of the line after."""
    return [layer["data"]["values"] for layer in spec["layer"]]


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The bundles made from here on, kept in a folder of the test."""
    calls = []

    def bundle(vl_version: str) -> str:
        calls.append(vl_version)
        return f"script of {vl_version}, für"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    monkeypatch.setattr(vega, "cache_from_source", lambda source: str(tmp_path / "kept" / "vega.pyc"))
    return calls


def test_a_bundle_is_made_once_a_version_and_each_time_where_nothing_can_be_kept(made, tmp_path, monkeypatch):
    (tmp_path / "kept").write_text("a file where the folder would be", encoding="utf-8")
    assert vega.bundle("6.1") == vega.bundle("6.1") == "script of 6.1, für"
    assert made == ["6.1", "6.1"]
    (tmp_path / "kept").unlink()
    made.clear()
    for one in ("6.1", "6.1", "6.4", "6.1"):
        assert vega.bundle(one) == f"script of {one}, für"
    assert made == ["6.1", "6.4"]
    monkeypatch.setattr(vega, "version", lambda name: "999")
    vega.bundle("6.1")
    assert made == ["6.1", "6.4", "6.1"]


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (fixed(12.345), "12.3"), (fixed(-0.25, 2), "\u22120.25"), (fixed(-0.01), "0.0"), (fixed(3.0, 0), "3"),
        (fixed(None), "–"), (signed(1.25), "+1.2"), (signed(-1.0), "\u22121.0"), (signed(-0.01), "±0.0"),
        (significant(2727.732), "2728"), (significant(0.40131), "0.4013"),
        (significant(-4.3e-6), "\u22124.3e\u221206"), (thousands(25000), "25,000"),
        (plural(1, "query", "queries"), "1 query"), (plural(25010, "query", "queries"), "25,010 queries"),
        (plural(0, "item"), "0 items"), (interval((300.25, 433.71)), "300.2\u2013433.7"), (interval(None), "–"),
        (percent(0.0049, 1), "0.5%"),
    ],
)  # fmt: skip
def test_written(got, expected):
    assert got == expected


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30))
def test_bins_of_the_log_histogram_equal_the_loops_leave_no_gap_and_grow(n):
    assert bins.log_histogram(np.array(n)) == naive.log_histogram(n)
    edges = bins.log_edges(3000)
    assert edges[:7] == [1, 2, 3, 4, 6, 8, 11]
    assert edges[-1] > 3000
    assert all(high <= 1.25 * low + 1 for low, high in pairwise(edges))


HITS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


def tables(hits):
    ids = pd.Index(np.arange(len(hits)) * 3 + 7, name="query_id")
    return [pd.DataFrame({"hit_1": [pair[side] for pair in hits]}, index=ids) for side in (0, 1)]


@given(HITS, st.integers(0, 50), st.integers(0, 3))
def test_what_a_criterion_changes_and_the_queries_shown_of_it_equal_the_loops(hits, count, seed):
    before, after = tables(hits)
    picks = mix(before, after, count, generator(seed, "t"))
    assert picks == mix(before, after, count, generator(seed, "t")), "the seed decides"
    assert len({pick.query_id for pick in picks}) == len(picks) == min(count, len(hits))
    for pick in picks:
        assert pick.kind == naive.kind(before.at[pick.query_id, "hit_1"], after.at[pick.query_id, "hit_1"])
    found = change(before, after, 1)
    kinds = {number: naive.kind(before.at[number, "hit_1"], after.at[number, "hit_1"]) for number in before.index}
    assert found[0].tolist() == [number for number, kind in kinds.items() if kind == "repaired"]
    assert found[1].tolist() == [number for number, kind in kinds.items() if kind == "broken"]


def test_kinds_take_turns_and_another_seed_chooses_other_queries():
    hits = [(False, True)] * 9 + [(True, True)] * 9 + [(False, False)] * 9 + [(True, False)]
    picks = mix(*tables(hits), 8, generator(1, "t"))
    assert [pick.kind for pick in picks] == [*KINDS, "repaired", "right", "wrong", "repaired"]
    hits = [(False, True)] * 50
    first, second = ({pick.query_id for pick in mix(*tables(hits), 5, generator(seed, "t"))} for seed in (1, 2))
    assert first != second
