"""Numbers as text, figures of hubs, and the queries that are shown."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from vse_pipe.core.seeds import generator
from vse_pipe.report import charts
from vse_pipe.report.formatting import fixed, interval, percent, plural, signed, significant, thousands
from vse_pipe.report.results import KINDS, change, mix, worst
from vse_pipe.report.sections import hubness


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (fixed(12.345), "12.3"),
        (fixed(-0.25, 2), "\u22120.25"),
        (fixed(-0.01), "0.0"),
        (fixed(3.0, 0), "3"),
        (fixed(None), "–"),
        (signed(1.25), "+1.2"),
        (signed(-1.0), "\u22121.0"),
        (signed(-0.01), "±0.0"),
        (significant(2727.732), "2728"),
        (significant(0.40131), "0.4013"),
        (significant(-4.3e-6), "\u22124.3e\u221206"),
        (thousands(25000), "25,000"),
        (plural(1, "query", "queries"), "1 query"),
        (plural(25010, "query", "queries"), "25,010 queries"),
        (plural(0, "item"), "0 items"),
        (interval((300.25, 433.71)), "300.2\u2013433.7"),
        (interval(None), "–"),
        (percent(0.0049, 1), "0.5%"),
    ],
)
def test_written(got, expected):
    assert got == expected


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=30))
def test_the_log_histogram_equals_the_loops(n):
    assert charts.log_histogram(np.array(n)) == naive.log_histogram(n)


def test_bins_of_the_log_histogram_leave_no_gap_and_grow():
    edges = charts.log_edges(3000)
    assert edges[:7] == [1, 2, 3, 4, 6, 8, 11]
    assert edges[-1] > 3000
    assert all(high <= 1.25 * low + 1 for low, high in pairwise(edges))


@given(st.lists(st.lists(st.integers(0, 6), max_size=4, unique=True), min_size=1, max_size=12), st.integers(1, 5))
def test_attracted_equals_the_loops(lists, limit):
    found = hubness.attracted(pa.array(lists, pa.list_(pa.int64())), [0, 3], limit)
    for item in (0, 3):
        rows = naive.attracted(lists, item)
        assert found[item] == (rows[:limit], len(rows))


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        ([4, 4, 4, 4], hubness.Hubness(0.0, 0.0, 0.0, 0.0, 4)),
        ([16, 0, 0, 0], hubness.Hubness(0.75, 0.75, 0.75, 1.0, 16)),
        ([0, 0], hubness.Hubness(0.0, 0.0, 1.0, 0.0, 0)),
    ],
)
def test_extremes(n, expected):
    items = pd.DataFrame({"fold": 0, "n_10": n})
    assert hubness.measure(items, 10) == expected


def test_folds_are_measured_apart_and_averaged():
    even, uneven = [3, 3, 3, 3], [12, 0, 0, 0]
    items = pd.DataFrame({"fold": [0] * 4 + [1] * 4, "n_10": even + uneven})
    found = hubness.measure(items, 10)
    assert found.gini == pytest.approx((0 + 0.75) / 2)
    assert found.largest == 12


HITS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


def tables(hits):
    ids = pd.Index(np.arange(len(hits)) * 3 + 7, name="query_id")
    return [pd.DataFrame({"hit_1": [pair[side] for pair in hits]}, index=ids) for side in (0, 1)]


@given(HITS, st.integers(0, 50), st.integers(0, 3))
def test_no_query_twice_and_every_kind_true(hits, count, seed):
    before, after = tables(hits)
    picks = mix(before, after, count, generator(seed, "t"))
    assert picks == mix(before, after, count, generator(seed, "t")), "the seed decides"
    assert len({pick.query_id for pick in picks}) == len(picks) == min(count, len(hits))
    for pick in picks:
        assert pick.kind == naive.kind(before.at[pick.query_id, "hit_1"], after.at[pick.query_id, "hit_1"])


def test_kinds_take_turns_and_another_seed_chooses_other_queries():
    hits = [(False, True)] * 9 + [(True, True)] * 9 + [(False, False)] * 9 + [(True, False)]
    picks = mix(*tables(hits), 8, generator(1, "t"))
    assert [pick.kind for pick in picks] == [*KINDS, "repaired", "right", "wrong", "repaired"]
    hits = [(False, True)] * 50
    first, second = ({pick.query_id for pick in mix(*tables(hits), 5, generator(seed, "t"))} for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize(("count", "expected"), [(2, [12, 10]), (9, [12, 10, 13])])
def test_worst_first_and_hits_left_out(count, expected):
    ranks = pd.DataFrame({"rank": [4.0, 1.0, 9.0, 4.0]}, index=pd.Index([10, 11, 12, 13], name="query_id"))
    assert worst(ranks, count) == expected


@given(HITS)
def test_what_a_criterion_changes_equals_the_loops(hits):
    before, after = tables(hits)
    found = change(before, after, 1)
    kinds = {number: naive.kind(before.at[number, "hit_1"], after.at[number, "hit_1"]) for number in before.index}
    assert found.repaired.tolist() == [number for number, kind in kinds.items() if kind == "repaired"]
    assert found.broken.tolist() == [number for number, kind in kinds.items() if kind == "broken"]
