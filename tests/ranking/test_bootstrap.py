"""Intervals against draws that are written down query by query, and the properties that make them intervals."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ranking import ranked
from vse_pipe.ranking import intervals as interval_module
from vse_pipe.ranking.intervals import HUBNESS, Figures, centred, holm, intervals, sample


def _with(table: pa.Table, **columns) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


@settings(max_examples=25)
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 2), st.booleans(), st.integers(0, 1000))
def test_every_metric_is_that_of_the_queries_written_down(images, captions, folds, matching, seed):
    ranks, occurrence = ranked.tables(images, captions, folds, seed=seed, matching=matching)
    figures, rng = Figures.from_tables(ranks, occurrence), np.random.default_rng(seed)
    counts = {fold: rng.multinomial(images, np.full(images, 1 / images), size=4) for fold in range(folds)}
    found = figures.measure(counts)
    rows = ranks.to_pylist()
    for draw in range(4):
        times = {}
        for fold, weights in counts.items():
            ids = sorted({row["image_id"] for row in rows if row["fold"] == fold})
            times[fold] = dict(zip(ids, weights[draw].tolist(), strict=True))
        expected = ranked.measured(rows, occurrence, times)
        assert {address: values[draw] for address, values in found.items()} == pytest.approx(expected, nan_ok=True)


HITS = ("hit_1", "hit_5", "hit_10")


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), images=st.integers(5, 60), folds=st.integers(1, 2))
def test_the_estimate_lies_inside(seed, images, folds):
    tables = ranked.tables(images, 3, folds, seed=seed)
    estimates = Figures.from_tables(*tables).estimate()
    for address, (low, high) in ranked.flat(intervals(*tables, 200, seed)).items():
        assert low <= high
        if address[-1] != "med_r" or folds == 1:
            assert low - 1e-9 <= estimates[address] <= high + 1e-9, address


def test_captions_of_one_image_are_drawn_together():
    """With the captions of an image all right or all wrong, images and not captions are what there is to count."""
    ranks, occurrence = ranked.tables(100, 5, seed=2)
    ranks = _with(ranks, hit_1=ranks["image_id"].to_numpy() // 10 % 2 == 0)
    low, high = intervals(ranks, occurrence, 1000, 1)["text_to_image"]["r@1"]
    assert high - low > 1.4 * 2 * 1.96 * 100 * np.sqrt(0.25 / 300), "of 300 captions alone"


def test_directions_are_drawn_together():
    """Where the two directions hit on opposite images their sum hardly varies: separate draws would not see it."""
    ranks, occurrence = ranked.tables(100, 1, seed=2)
    even = ranks["image_id"].to_numpy() // 10 % 2 == 0
    to_text = np.asarray(ranks["direction"].to_pylist()) == "image_to_text"
    found = intervals(_with(ranks, **dict.fromkeys(HITS, even == to_text)), occurrence, 200, 1)
    assert found["rsum"] == pytest.approx([300, 300])
    assert found["image_to_text"]["r@1"][1] - found["image_to_text"]["r@1"][0] > 10


def test_two_evaluations_get_the_same_draws_however_many_are_held_at_once(monkeypatch):
    figures = [Figures.from_tables(*ranked.tables(folds=2, quality=quality)) for quality in (0.9, 0.3)]
    together = sample(figures, 37, 1)
    for one, found in zip(figures, together, strict=True):
        for at_once in (1, 7 * 80, 36 * 80):
            monkeypatch.setattr(interval_module, "_WEIGHTS_AT_ONCE", at_once)
            (alone,) = sample([one], 37, 1)
            assert alone.keys() == found.keys()
            for address in found:
                np.testing.assert_allclose(alone[address], found[address], err_msg=str(at_once))


def test_the_seed_decides_and_the_order_of_the_rows_does_not_matter():
    ranks, occurrence = ranked.tables(folds=2)
    found = intervals(ranks, occurrence, 50, 1)
    assert found == intervals(ranks, occurrence, 50, 1) != intervals(ranks, occurrence, 50, 2)
    shuffled = ranks.take(np.random.default_rng(0).permutation(len(ranks)))
    for address, ends in ranked.flat(intervals(shuffled, occurrence[::-1], 50, 1)).items():
        assert ends == pytest.approx(ranked.flat(found)[address]), address


def test_hubness_is_centred_on_the_estimate_and_stays_possible():
    tables = ranked.tables(200, 1, seed=1)
    estimates, found = Figures.from_tables(*tables).estimate(), ranked.flat(intervals(*tables, 400, 1))
    (draws,) = sample([Figures.from_tables(*tables)], 400, 1)
    address = ("text_to_image", "anti_hubs@10")
    assert estimates[address] < draws[address].min(), "the shift that makes the remedy necessary"
    for address, (low, high) in found.items():
        if address[-1].startswith(HUBNESS):
            assert low < estimates[address] < high, address
            assert np.median(centred(address, draws[address], estimates[address])) == pytest.approx(estimates[address])
            assert low >= 0 or address[-1].startswith(("skew", "hs_sum")), address


def test_draws_without_any_query_are_left_out():
    """Of two images only one has a caption as a query: a quarter of all draws miss it."""
    ranks, occurrence = ranked.tables(2, 1)
    first = ranks["image_id"][0]
    kept = ranks.filter((pc.field("direction") == "image_to_text") | (pc.field("image_id") == first))
    (draws,) = sample([Figures.from_tables(kept, occurrence)], 400, 1)
    assert 260 < len(draws["text_to_image", "r@1"]) < 340
    assert all(np.isfinite(values).all() for values in draws.values())


@settings(max_examples=30)
@given(st.lists(st.floats(0.0, 1.0), max_size=7))
def test_holm_rejects_step_by_step(p_values):
    """As Holm wrote it down: the smallest is tested at a / n, the next at a / (n - 1), until one is not rejected."""
    corrected = holm(p_values)
    for level in (0.01, 0.05, 0.3):
        rejected, left = set(), sorted(range(len(p_values)), key=lambda index: p_values[index])
        while left and p_values[left[0]] * len(left) < level:
            rejected.add(left.pop(0))
        assert {index for index, p in enumerate(corrected) if p < level} == rejected
    assert all(p <= found <= 1 for p, found in zip(p_values, corrected, strict=True))
