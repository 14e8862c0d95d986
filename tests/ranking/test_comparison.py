"""Differences, their intervals and p-values, on tables drawn at random."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.benchmarks import intervals
from tests.naive import evaluate as naive
from tests.ranking import ranked
from tests.tools.compared import evaluation, of_tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.seeds import generator
from vse_pipe.ranking import comparison
from vse_pipe.ranking.comparison import (
    Compared,
    Method,
    Repetitions,
    difference_spread,
    figure_spread,
    repetitions,
    spreads,
)
from vse_pipe.ranking.intervals import HUBNESS, Figures, sample, swapped


def compared(a: Compared, b: Compared, *rest: int) -> comparison.Comparison:
    return comparison.compared(Method.single(a), Method.single(b), *rest)


def _rows(comparison) -> dict:
    return {row.address: row for row in comparison.rows}


def test_the_figures_are_those_of_each_side():
    a, b = (evaluation(folds=2, quality=quality, seed=seed) for quality, seed in ((0.4, 1), (0.9, 2)))
    comparison = compared(a, b, 50, 1)
    assert comparison.images == 80
    for one, side in ((a, "a"), (b, "b")):
        rows, items = one.ranks.to_pylist(), {}
        for row in one.occurrence.to_pylist():
            items.setdefault((row["direction"], row["fold"]), []).append(row["item_id"])
        once = {fold: {row["image_id"]: 1 for row in rows if row["fold"] == fold} for fold in (0, 1)}
        expected = naive.measure(rows, items, once)
        for row in comparison.rows:
            value = expected[row.address[0]]
            value = value[row.address[1]] if len(row.address) == 2 else value
            assert getattr(row, side) == pytest.approx(value), row.address
    assert len(comparison.rows) == 2 * 17 + 2


def test_a_better_model_is_seen_and_the_pairing_narrows_it():
    ranks, occurrence = ranked.tables(300, 3, quality=0.5, seed=1)
    missed = np.flatnonzero(~ranks["hit_1"].to_numpy(zero_copy_only=False))[::9]
    hits = ranks["hit_1"].to_numpy(zero_copy_only=False).copy()
    hits[missed] = True
    better = ranks.set_column(ranks.column_names.index("hit_1"), "hit_1", [hits])
    rows = _rows(compared(of_tables("a", ranks, occurrence), of_tables("b", better, occurrence), 400, 1))
    row = rows["text_to_image", "r@1"]
    assert 0 < row.interval[0] < row.difference < row.interval[1]
    assert row.p == pytest.approx(2 / 401)
    unpaired = 2 * 1.96 * 100 * np.sqrt(2 * 0.25 / 600)
    assert row.interval[1] - row.interval[0] < unpaired / 2
    assert rows["text_to_image", "r@5"].interval == [0.0, 0.0]
    assert rows["text_to_image", "r@5"].p == 1.0


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 1000), images=st.integers(3, 30))
def test_turning_the_sides_turns_the_differences(seed, images):
    a, b = (evaluation(images=images, quality=quality, seed=seed) for quality in (0.3, 0.8))
    forth, back = _rows(compared(a, b, 60, seed)), _rows(compared(b, a, 60, seed))
    for address, row in forth.items():
        assert row.difference == -back[address].difference
        assert row.interval == pytest.approx([-end for end in reversed(back[address].interval)], abs=1e-9)
        assert row.p == pytest.approx(back[address].p)


def test_an_evaluation_does_not_differ_from_itself():
    one = evaluation()
    for row in compared(one, one, 50, 1).rows:
        assert (row.difference, row.interval, row.p) == (0.0, [0.0, 0.0], 1.0), row.address


@pytest.mark.acceptance
def test_equal_models_are_rarely_significant():
    """Two models that are right on each query with the same chance: p < 0.05 in about one case of twenty."""
    found = []
    for seed in range(60):
        a, b = (evaluation(images=60, captions=1, quality=0.7, seed=2 * seed + side) for side in (0, 1))
        found.append(_rows(compared(a, b, 199, seed))["image_to_text", "r@1"].p)
    assert np.mean(np.array(found) < 0.05) <= 0.15
    assert np.mean(found) > 0.3


def test_hubness_is_judged_by_images_that_change_sides():
    """Every draw by hand: an image that does not stay gives its result in A to B, and takes that of B."""
    a, b = (evaluation(folds=2, images=16, quality=quality, seed=seed) for quality, seed in ((0.4, 1), (0.9, 2)))
    rows, items, figures = (
        [one.ranks.to_pylist() for one in (a, b)],
        {},
        [Figures.from_tables(one.ranks, one.occurrence) for one in (a, b)],
    )
    for row in a.occurrence.to_pylist():
        items.setdefault((row["direction"], row["fold"]), []).append(row["item_id"])
    found, images = swapped(*figures, 5, 7), figures[0].images()
    stays = {fold: generator(7, "swap", fold).integers(2, size=(5, count)) for fold, count in images.items()}
    ids = {fold: sorted({row["image_id"] for row in rows[0] if row["fold"] == fold}) for fold in images}
    for draw in range(5):
        kept = {(fold, image): stays[fold][draw, place] for fold in ids for place, image in enumerate(ids[fold])}
        mixed = [
            [row for side in (0, 1) for row in rows[side] if kept[row["fold"], row["image_id"]] == (side == to)]
            for to in (0, 1)
        ]
        once = {fold: dict.fromkeys(ids[fold], 1) for fold in ids}
        first, second = (naive.measure(part, items, once) for part in mixed)
        for address, values in found.items():
            of_a, of_b = (
                one[address[0]] if len(address) == 1 else one[address[0]][address[1]] for one in (first, second)
            )
            assert values[draw] == pytest.approx(of_b - of_a, abs=1e-9), address
    assert {address[-1].partition("@")[0] for address in found} == {
        *("skew", "robin_hood", "gini", "anti_hubs", "largest_hub", "hs_sum")
    }


def test_a_skewness_that_is_undefined_is_not_compared():
    """Six images: each query has all of them among its best ten."""
    a, b = (evaluation(images=6, seed=seed) for seed in (1, 2))
    for one in (a, b):
        one.metrics["text_to_image"]["skew@10"] = one.metrics["hs_sum"] = None
    rows = _rows(compared(a, b, 40, 1))
    assert {("text_to_image", "skew@10"), ("hs_sum",)} & rows.keys() == set()
    assert rows["image_to_text", "skew@10"].p is not None
    assert rows["text_to_image", "gini@10"].p == 1.0


@pytest.mark.acceptance
def test_hubness_of_equal_models_is_rarely_significant():
    """p < 0.05 in one case of twenty at most, within chance: 300 pairs of two models that answer alike."""
    found: dict[tuple, list] = {}
    for seed in range(300):
        a, b = (evaluation(images=30, quality=0.7, seed=2 * seed + side) for side in (0, 1))
        for address, row in _rows(compared(a, b, 99, seed)).items():
            if address[-1].startswith(HUBNESS):
                found.setdefault(address, []).append(row.p < 0.05)
    assert max(np.mean(rejected) for rejected in found.values()) <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_a_matching_has_figures_without_an_interval():
    a, b = (of_tables(name, *ranked.tables(matching=True, seed=seed)) for name, seed in (("a", 1), ("b", 2)))
    for one in (a, b):
        one.metrics["hs_sum"] = 12.5
        one.metrics["image_to_text"]["skew@1"] = 1.25
    rows = _rows(compared(a, b, 20, 1))
    assert (rows["hs_sum",].a, rows["hs_sum",].interval, rows["hs_sum",].p) == (12.5, None, None)
    assert rows["image_to_text", "skew@1"].a == 1.25
    assert rows["image_to_text", "r@1"].interval is not None
    assert ("image_to_text", "mrr") not in rows


def test_a_ranking_against_a_matching_compares_what_both_have():
    ranking, matching = evaluation(), evaluation(matching=True)
    matching.metrics["text_to_image"]["gini@10"] = 0.25
    rows = _rows(compared(ranking, matching, 20, 1))
    assert ("text_to_image", "med_r") not in rows
    assert (rows["text_to_image", "gini@10"].b, rows["text_to_image", "gini@10"].p) == (0.25, None)
    assert rows["rsum",].p is not None


@pytest.mark.parametrize(
    ("value", "message"),
    [(12.0, r"metrics.json has text_to_image.r@5 = 12.0, ranks.parquet and occurrence.parquet give \d+\.\d+;")],
)
def test_figures_that_are_not_those_of_the_tables_are_refused(value, message):
    a, b = evaluation("a"), evaluation("b")
    b.metrics["text_to_image"]["r@5"] = value
    with pytest.raises(InputError, match=message):
        compared(a, b, 10, 1)


def test_figures_that_are_not_finite_are_refused():
    a, b = (evaluation(matching=True) for _ in "ab")
    a.metrics["hs_sum"] = float("nan")
    with pytest.raises(InputError, match=r"one: metrics\.json hs_sum is nan, expected a finite number"):
        compared(a, b, 10, 1)


def _method(name: str, seeds: dict[int, int], quality: float) -> Method:
    """seeds: by the name, what the tables are drawn with."""
    models = {
        str(seed): evaluation(f"{name}/{seed}", images=30, quality=quality, seed=drawn) for seed, drawn in seeds.items()
    }
    return Method(name, models)


def _rsums(method: Method) -> list[float]:
    return [one.metrics["rsum"] for one in method.models.values()]


def test_seeds_go_together_whatever_their_order():
    a, b = _method("a", {1: 10, 2: 11, 3: 12}, 0.4), _method("b", {3: 22, 1: 20, 2: 21}, 0.8)
    row = _rows(comparison.compared(a, b, 60, 5))["rsum",]
    figures = {
        (method.name, seed): Figures.from_tables(one.ranks, one.occurrence)
        for method in (a, b)
        for seed, one in method.models.items()
    }
    drawn = dict(zip(figures, sample(list(figures.values()), 60, 5), strict=True))
    values = [figures["b", s].estimate()["rsum",] - figures["a", s].estimate()["rsum",] for s in "123"]
    draws = [(drawn["b", s]["rsum",] - drawn["a", s]["rsum",]).tolist() for s in "123"]
    between, images = naive.variance_of_mean(values, draws)
    away = stats.t.ppf(0.975, 2 * (between + images) / between) * (between + images) ** 0.5
    assert row.difference == pytest.approx(np.mean(values))
    assert row.interval == pytest.approx([np.mean(values) - away, np.mean(values) + away])
    assert (row.p < 0.05) == (not row.interval[0] <= 0 <= row.interval[1])
    assert row.spread == pytest.approx((np.std(_rsums(a), ddof=1), np.std(_rsums(b), ddof=1)))


def test_other_seeds_are_not_paired_and_one_model_stands_for_itself():
    a, b = _method("a", {1: 10, 2: 11, 3: 12}, 0.4), _method("b", {1: 20, 2: 21, 4: 22}, 0.8)
    assert comparison.paired(a, _method("c", {1: 1, 2: 2, 3: 3}, 0.4))
    assert not comparison.paired(a, b)
    row = _rows(comparison.compared(a, b, 60, 5))["rsum",]
    assert row.difference == pytest.approx(np.mean(_rsums(b)) - np.mean(_rsums(a)))
    lone = Method.single(evaluation("c", images=30, quality=0.8, seed=20))
    row = _rows(comparison.compared(a, lone, 60, 5))["rsum",]
    assert (row.a, row.b) == pytest.approx((np.mean(_rsums(a)), lone.metrics["rsum"]))
    assert row.spread[1] is None
    alone = _rows(comparison.compared(Method.single(a.models["1"]), lone, 60, 5))["rsum",]
    assert row.interval[1] - row.interval[0] != pytest.approx(alone.interval[1] - alone.interval[0])


def test_a_seed_measured_on_other_data_is_refused():
    a, b = _method("a", {1: 10, 2: 11}, 0.4), _method("b", {1: 20, 2: 21}, 0.8)
    b.models["2"].metrics["split"] = "val"
    with pytest.raises(InputError, match="a/1 and b/2 cannot be compared: split is 'test' in the first, 'val'"):
        comparison.compared(a, b, 10, 1)


def _changed(one: Compared, table: str, column: str, row: int, value: int) -> Compared:
    tables = {"ranks": one.ranks, "occurrence": one.occurrence}
    values = tables[table][column].to_pylist()
    values[row] = value
    place = tables[table].column_names.index(column)
    tables[table] = tables[table].set_column(place, column, pa.array(values, tables[table][column].type))
    return Compared("other", one.metrics, **tables)


def test_the_same_queries_pair_whatever_their_order_and_figures():
    a, b = evaluation(seed=1), evaluation(seed=2, quality=0.9)
    comparison.check(a, Compared("b", b.metrics, b.ranks[::-1], b.occurrence[::-1]))


@pytest.mark.parametrize(("key", "value"), [("split", "val"), ("protocol", "folds"), ("ties", "average")])
def test_another_protocol_is_refused(key, value):
    a, b = evaluation("a"), evaluation("b", {key: value})
    message = f"a and b cannot be compared: {key} is '{a.metrics[key]}' in the first, '{value}' in the second"
    with pytest.raises(InputError, match=message):
        comparison.check(a, b)


def test_figures_of_other_data_are_refused(capsys):
    """A clone may hold evaluations of the demo with as many images as one's own data, and the same running numbers."""
    a, b = evaluation("a", {"data": "1f"}), evaluation("b", {"data": "2e"})
    with pytest.raises(
        InputError, match=r"a and b cannot be compared: measured on other data \(1f in the first, 2e in"
    ):
        comparison.check(a, b)
    comparison.check(a, evaluation("c", {"data": "1f"}))
    assert capsys.readouterr().err == ""
    for sides in ((a, evaluation("old")), (evaluation("old"), a)):
        comparison.check(*sides)
        assert capsys.readouterr().err.startswith("warning: old does not say which data it was measured on")


def test_another_bank_is_allowed():
    comparison.check(evaluation(), evaluation("b", {"bank": "test"}))


def test_missing_queries_are_counted_and_the_first_is_named():
    a = evaluation("a", images=3, captions=1)
    b = Compared("b", a.metrics, a.ranks[1:], a.occurrence)
    first = a.ranks["query_id"][0]
    message = "6 and 5 queries, of which 1 are on one side only; image_to_text fold 0 query_id"
    with pytest.raises(InputError, match=f"{message} {first} is only in the first"):
        comparison.check(a, b)
    with pytest.raises(InputError, match=f"query_id {first} is only in the second"):
        comparison.check(b, a)


def test_a_query_of_another_fold_is_another_query():
    a = evaluation("a")
    with pytest.raises(InputError, match="80 and 80 queries"):
        comparison.check(evaluation(captions=1), _changed(evaluation(captions=1), "ranks", "fold", 0, 1))
    assert len(a.ranks) == 40 + 79


def test_a_caption_of_another_image_is_refused():
    a = evaluation("a")
    last = a.ranks["query_id"][-1]
    owner = a.ranks["image_id"][-1].as_py()
    other = _changed(a, "ranks", "image_id", len(a.ranks) - 1, 5)
    message = "1 queries belong to other images, the first is text_to_image fold 0 query_id"
    with pytest.raises(InputError, match=f"{message} {last} of images {owner}, 5"):
        comparison.check(a, other)


def test_other_items_to_choose_from_are_refused():
    a = evaluation("a")
    with pytest.raises(InputError, match=r"119 and 119 items, of which 2 .* item_id \d+ is only in the (first|second)"):
        comparison.check(a, _changed(a, "occurrence", "item_id", 0, 5))


def test_a_query_that_is_there_twice_is_refused():
    a = evaluation("a")
    twice = _changed(a, "ranks", "query_id", 0, a.ranks["query_id"][1].as_py())
    with pytest.raises(InputError, match=r"other: image_to_text fold 0 query_id \d+ is there more than once"):
        comparison.check(a, twice)


def test_the_same_numbers_of_other_texts_are_refused():
    """Files whose ids are text are numbered as they come."""
    a, b = evaluation("a"), evaluation("b")
    texts = pa.array([f"query {place}" for place in range(len(a.ranks))])
    moved = pa.array([*texts.to_pylist()[1:], "another"])
    same, other = (
        Compared(one.name, one.metrics, one.ranks.append_column("query_name", column), one.occurrence)
        for one, column in ((a, texts), (b, moved))
    )
    comparison.check(same, same)
    for sides in ((same, other), (same, b), (b, same)):
        with pytest.raises(InputError, match="rows come in the same order"):
            comparison.check(*sides)


def _drawn(rng: np.random.Generator, seeds: int, draws: int = 12, images: float = 1.0) -> Repetitions:
    together = images * rng.standard_normal(draws)
    return Repetitions(rng.normal(50, 2, seeds), 50 + together + rng.standard_normal((seeds, draws)))


@settings(deadline=None, max_examples=20)
@given(seeds=st.integers(2, 6), seed=st.integers(0, 10_000), images=st.sampled_from([0.0, 1.0, 5.0]))
def test_the_variance_is_that_of_all_pairs_of_seeds(seeds, seed, images):
    one = _drawn(np.random.default_rng(seed), seeds, images=images)
    between, of_images = naive.variance_of_mean(one.values.tolist(), one.draws.tolist())
    found = figure_spread(one)
    assert found.error**2 == pytest.approx(between + of_images)
    assert found.freedom == pytest.approx((seeds - 1) * (between + of_images) / between)
    low, high = stats.t.interval(0.9, found.freedom, loc=one.values.mean(), scale=found.error)
    assert found.interval(0.9) == pytest.approx([low, high])


@settings(deadline=None, max_examples=20)
@given(of_a=st.integers(2, 5), of_b=st.integers(2, 5), seed=st.integers(0, 10_000))
def test_methods_with_seeds_of_their_own_share_the_images(of_a, of_b, seed):
    rng = np.random.default_rng(seed)
    a, b = _drawn(rng, of_a), _drawn(rng, of_b)
    parts = naive.variance_of_difference(a.values.tolist(), a.draws.tolist(), b.values.tolist(), b.draws.tolist())
    found, (between_a, between_b, images) = difference_spread(a, b), parts
    assert found.mean == pytest.approx(b.values.mean() - a.values.mean())
    assert found.error**2 == pytest.approx(sum(parts))
    welch = (between_a + between_b) ** 2 / (between_a**2 / (of_a - 1) + between_b**2 / (of_b - 1))
    assert found.freedom == pytest.approx(welch * (between_a + between_b + images) / (between_a + between_b))


@settings(deadline=None, max_examples=20)
@given(seeds=st.integers(2, 6), seed=st.integers(0, 10_000), level=st.floats(0.5, 0.999))
def test_the_p_value_says_what_the_interval_says(seeds, seed, level):
    rng = np.random.default_rng(seed)
    found = figure_spread(_drawn(rng, seeds) - _drawn(rng, seeds))
    low, high = found.interval(level)
    assert (found.p_value() < 1 - level) == (not low <= 0 <= high)


def test_without_chance_in_the_images_it_is_the_t_test():
    values = np.array([10.0, 12.0, 11.0, 14.0])
    found = figure_spread(Repetitions(values, np.repeat(values[:, None], 5, axis=1)))
    expected = stats.ttest_1samp(values, 0)
    assert found.p_value() == pytest.approx(expected.pvalue)
    assert found.interval() == pytest.approx(list(expected.confidence_interval()))
    other = np.array([9.0, 9.5, 13.0])
    of_two = difference_spread(
        Repetitions(other, np.repeat(other[:, None], 5, axis=1)), Repetitions(values, np.ones((4, 5)))
    )
    welch = stats.ttest_ind(values, other, equal_var=False)
    assert (of_two.p_value(), of_two.freedom) == (pytest.approx(welch.pvalue), pytest.approx(welch.df))


def test_equal_seeds_leave_the_images_and_a_normal_quantile():
    draws = np.random.default_rng(0).normal(5, 2, 4000)
    found = figure_spread(Repetitions(np.full(3, 5.0), np.stack([draws] * 3)))
    assert (found.error, found.freedom) == (pytest.approx(draws.std(ddof=1)), np.inf)
    assert found.interval()[1] - 5 == pytest.approx(1.96 * found.error, rel=1e-4)


def test_no_chance_at_all_is_a_point():
    same, other = (Repetitions(np.full(3, value), np.full((3, 9), value)) for value in (50.0, 51.0))
    assert (figure_spread(same - same).interval(), figure_spread(same - same).p_value()) == ([0.0, 0.0], 1.0)
    assert (figure_spread(other - same).interval(), figure_spread(other - same).p_value()) == ([1.0, 1.0], 0.0)


def test_all_figures_of_a_method_by_address():
    evaluations = [Figures.from_tables(*ranked.tables(30, seed=seed)) for seed in range(3)]
    found, samples = spreads(evaluations, 50, 7), sample(evaluations, 50, 7)
    assert set(found) == set(evaluations[0].estimate())
    rsums = [one.estimate()["rsum",] for one in evaluations]
    between, images = naive.variance_of_mean(rsums, [one["rsum",].tolist() for one in samples])
    assert (found["rsum",].mean, found["rsum",].error) == pytest.approx((np.mean(rsums), (between + images) ** 0.5))
    matched = [Figures.from_tables(*ranked.tables(30, seed=seed, matching=seed > 0)) for seed in range(2)]
    assert ("hs_sum",) not in repetitions(matched, sample(matched, 9, 1)), "a figure that one seed lacks"


@pytest.mark.acceptance
def test_simulated_coverage():
    """A short run of tests/benchmarks/intervals.py, whose long one docs/comparisons.md shows: no worse than chance makes it."""
    world = intervals.World("quick", 100, 0.15, 0.6, 0.3, 0.1)
    ours, plain = intervals.shares(world, simulations=150, draws=100)
    assert ours.min() > 0.88, ours
    assert plain[:, 0].min() < 0.88, "percentiles of 3 drawn seeds are no remedy"
