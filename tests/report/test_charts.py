"""Charts and figures of the report, numbers as text, and the queries that are shown."""

import json
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from tests.report import project as base
from vse_pipe.core.seeds import generator
from vse_pipe.report import vega
from vse_pipe.report.formatting import fixed, interval, percent, plural, signed, significant, thousands
from vse_pipe.report.sections.criteria import _points, change, log_edges
from vse_pipe.report.sections.examples import mix


def drawn(page, name):
    """The charts of a section as Vega draws them; raises where a specification is not valid."""
    section = base.section(page, name)
    texts = re.findall(r'data-chart="[^"]*">(.*?)</script>', section, re.DOTALL)
    return [vl_convert.vegalite_to_svg(json.loads(text)) for text in texts]


def marks(svg, kind):
    return svg.count(f'aria-roledescription="{kind}"')


def test_charts_have_a_mark_for_each_run_value_and_criterion(page):
    steepness, batch, convergence = drawn(page, "sweeps")
    # A point and an interval a run; a tick a value; a legend only beside baselines.
    assert (marks(steepness, "point"), marks(steepness, "rule mark")) == (3, 3)
    assert all(f">{text}<" in steepness for text in ("10", "80", "beta of the loss"))
    assert ">loss.beta<" not in steepness
    assert [batch.count(f">{name}<") for name in ("sum", "max")] == [1, 1]
    assert (marks(batch, "point"), marks(batch, "rule mark")) == (1, 3)
    for svg, runs in ((convergence, 2), (drawn(page, "curves")[0], 3)):
        assert (marks(svg, "line mark"), marks(svg, "point")) == (runs, runs)
    losses = drawn(page, "curves")[1:]
    assert len(losses) == 3
    assert all(svg.count(f">{epoch}</text>") == 1 for svg in losses for epoch in (2, 14))
    for svg in drawn(page, "relaxation"):
        assert (marks(svg, "line mark"), marks(svg, "point")) == (3, 3)
    assert all(marks(svg, "bar") > 1 for svg in drawn(page, "changes"))
    plain, *rest = drawn(page, "hubness")[: len(base.CRITERIA)]
    assert [marks(svg, "line mark") for svg in (plain, *rest)] == [1] + [2] * len(rest)


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
def test_bins_of_n_equal_the_loops_leave_no_gap_and_grow(n):
    table = _points(np.array(n))
    bins = [
        (int(name.split()[0]), int(name.split()[-1]), items)
        for name, items in zip(table["range"], table["items"], strict=True)
    ]
    assert bins == naive.log_histogram(n)
    edges = log_edges(3000)
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
