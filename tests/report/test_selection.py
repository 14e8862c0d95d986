import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.naive import stages as naive
from vse_pipe.core.seeds import generator
from vse_pipe.report.results import KINDS, change, mix, worst

HITS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


def tables(hits):
    ids = pd.Index(np.arange(len(hits)) * 3 + 7, name="query_id")
    return [pd.DataFrame({"hit_1": [pair[side] for pair in hits]}, index=ids) for side in (0, 1)]


@given(HITS, st.integers(0, 50), st.integers(0, 3))
def test_no_query_twice_and_every_kind_true(hits, count, seed):
    before, after = tables(hits)
    picks = mix(before, after, count, generator(seed, "t"))
    assert len({pick.query_id for pick in picks}) == len(picks) == min(count, len(hits))
    for pick in picks:
        assert pick.kind == naive.kind(before.at[pick.query_id, "hit_1"], after.at[pick.query_id, "hit_1"])


@given(HITS, st.integers(0, 50))
def test_the_seed_decides(hits, count):
    chosen = [mix(*tables(hits), count, generator(5, "t")) for _ in range(2)]
    assert chosen[0] == chosen[1]


def test_kinds_take_turns():
    hits = [(False, True)] * 9 + [(True, True)] * 9 + [(False, False)] * 9 + [(True, False)]
    picks = mix(*tables(hits), 8, generator(1, "t"))
    assert [pick.kind for pick in picks] == [*KINDS, "repaired", "right", "wrong", "repaired"]


def test_another_seed_chooses_other_queries():
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
