import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.naive import evaluate as naive
from tests.ranking.dense import product
from vse_pipe.core.errors import InputError
from vse_pipe.ranking import criteria, evaluation, tiles
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.criteria import Trial, Tuned, rank_fold
from vse_pipe.ranking.evaluation import Depths
from vse_pipe.ranking.recall import Truth
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import mean_of_top, top_k

IMAGES, CAPTIONS = 900, 1700


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """Tiles of several strips, and several of them each way, for few scores."""
    monkeypatch.setattr(tiles, "_FEWEST", 1)
    monkeypatch.setattr(tiles, "_WIDTH", 1024)


def vectors(steps=None, dim=24, count=(IMAGES, CAPTIONS)):
    """Images, captions and the image of each; with ``steps`` values are so few that many scores are equal, and no product is rounded."""
    rng = np.random.default_rng(0)
    pictures, texts = count
    owners = np.concatenate([rng.permutation(pictures), rng.integers(pictures, size=texts - pictures)])
    images = rng.standard_normal((pictures, dim))
    captions = images[owners] + 2.0 * rng.standard_normal((texts, dim))
    if steps:
        images, captions = images.round() / steps, captions.round() / steps
    return torch.from_numpy(images).float(), torch.from_numpy(captions).float(), owners


def sides_of(images, captions, owners, similarity=product, bare=0):
    """Of both directions; the first ``bare`` captions describe no image."""
    one = Scores.from_sides(images, captions, similarity)
    pictures, texts = one.shape
    correct = [np.flatnonzero((owners == image) & (np.arange(texts) >= bare)) for image in range(pictures)]
    back = [owners[[caption]] if caption >= bare else owners[:0] for caption in range(texts)]
    truths = Truth.listed(correct, texts), Truth.listed(back, pictures)
    return [Trial(of, Bank(of, True), truth) for of, truth in zip((one, one.transposed()), truths, strict=True)]


def both(sides, criterion, ties="pessimistic"):
    tuned = Tuned(criteria.parse(criterion, {}), {})
    return [one for one, _, _ in rank_fold([tuned, tuned], sides, ties, Depths())]


def apart(sides, criterion, ties="pessimistic"):
    tuned = Tuned(criteria.parse(criterion, {}), {})
    judged = [evaluation.judged_items(side.under(tuned.criterion), side.truth) for side in sides]
    return [evaluation.rank(*scores_and_truth, ties, depths=Depths()) for scores_and_truth in judged]


def same(one, other):
    np.testing.assert_array_equal(one.ranks, other.ranks)
    np.testing.assert_array_equal(one.top, other.top)
    for k, counts in other.occurrence.items():
        np.testing.assert_array_equal(one.occurrence[k], counts)
    for name, values in other.measures.items():
        np.testing.assert_array_equal(one.measures[name], values)


@pytest.fixture
def passes(monkeypatch):
    """How each pass over tiles ended."""
    ended = []
    passed = tiles._passed

    def watched(ways):
        ended.append(passed(ways))
        return ended[-1]

    monkeypatch.setattr(tiles, "_passed", watched)
    return ended


def check_strips_give_the_same(found, sides, criterion, monkeypatch, ties="pessimistic"):
    """To the bit."""
    by_strips(monkeypatch)
    for one, other in zip(found, apart(sides, criterion, ties), strict=True):
        same(one, other)


def by_strips(monkeypatch):
    monkeypatch.setattr(tiles, "_FEWEST", 1 << 60)


@pytest.mark.parametrize("criterion", ["nns", "csls", "nnn"])
@pytest.mark.parametrize(
    ("ties", "steps"), [("pessimistic", None), ("pessimistic", 4), ("average", 4), ("optimistic", 4), ("average", None)]
)
def test_one_pass_gives_what_two_over_strips_give(criterion, ties, steps, passes, monkeypatch):
    given = vectors(steps)
    found = both(sides_of(*given), criterion, ties)
    assert passes
    assert all(passes)
    check_strips_give_the_same(found, sides_of(*given), criterion, monkeypatch, ties)


def test_ranks_best_items_and_occurrence_are_those_of_the_loops(passes):
    images, captions, owners = vectors(steps=4)
    found = both(sides_of(images, captions, owners), "nns", "average")
    assert passes == [True]
    matrix = (images @ captions.T).numpy()
    of_image = [set(np.flatnonzero(owners == image)) for image in range(IMAGES)]
    for one, rows, correct in [(found[0], matrix, of_image), (found[1], matrix.T, [{owner} for owner in owners])]:
        rows = rows.tolist()
        some = range(0, len(rows), 13)
        assert [one.ranks[row] for row in some] == [naive.best_rank(rows[row], correct[row], "average") for row in some]
        tops = [naive.top(row, 10) for row in rows]
        assert one.top.reshape(-1, 10).tolist() == tops
        assert one.occurrence[5].tolist() == naive.occurrence([top[:5] for top in tops], len(rows[0]))


def test_queries_without_a_correct_item_are_in_no_figure(passes, monkeypatch):
    found = both(sides_of(*vectors(), bare=300), "csls")
    assert all(passes)
    check_strips_give_the_same(found, sides_of(*vectors(), bare=300), "csls", monkeypatch)
    assert len(found[1].ranks) == CAPTIONS - 300


def test_means_of_the_best_are_made_once_for_both_directions(passes, monkeypatch):
    images, captions, _ = vectors()
    scores = Scores.from_sides(images, captions, product)
    found = mean_of_top(scores.transposed(), 7), mean_of_top(scores, 7)
    assert passes == [True]
    few = mean_of_top(Scores.from_sides(images, captions[:100], product), 128)
    by_strips(monkeypatch)
    fresh = Scores.from_sides(images, captions, product)
    assert torch.equal(found[0], mean_of_top(fresh.transposed(), 7))
    assert torch.equal(found[1], mean_of_top(fresh, 7))
    assert torch.equal(few, mean_of_top(Scores.from_sides(images, captions[:100], product), 128)), "all that there are"


def test_the_pass_makes_each_product_once(monkeypatch):
    made, passed = [], tiles._passed

    def counted(left, right):
        made.append(len(left) * len(right))
        return left @ right.T

    monkeypatch.setattr(tiles, "_passed", lambda ways: (made.clear(), passed(ways))[1])
    both(sides_of(*vectors(count=(768, 1536)), counted), "nns")
    assert sum(made) == 768 * 1536


def fickle(differs):
    return lambda left, right: (left @ right.T) * (1.0000001 if differs(left, right) else 1.0)


@pytest.mark.parametrize("differs", [lambda left, right: len(left) > 256, lambda left, right: len(right) == 1024])
def test_where_a_tile_differs_from_the_strips_these_tell(differs, passes, monkeypatch):
    found = both(sides_of(*vectors(), fickle(differs)), "nns")
    assert True not in passes
    check_strips_give_the_same(found, sides_of(*vectors(), fickle(differs)), "nns", monkeypatch)


def test_a_correct_pair_that_a_tile_scores_otherwise_ends_the_pass(passes):
    """The scores of correct pairs are made before the tiles, from products of other columns."""
    of_tiles = (256, CAPTIONS % 256, 1024, CAPTIONS % 1024, CAPTIONS)
    sides = sides_of(*vectors(), fickle(lambda left, right: len(right) not in of_tiles))
    found = both(sides, "nns", "average")
    assert passes == [False]
    same(found[0], apart(sides, "nns", "average")[0])


@pytest.mark.parametrize(
    ("value", "criterion", "message"),
    [
        (3e38, "nns", "scores of queries 512 to 767 hold NaN or infinite values"),
        # Of one direction, where those of the other and all similarities are finite.
        (2e36, "nnn", "hold NaN or infinite values"),
        (2e36, "csls", "hold NaN or infinite values"),
    ],
)
def test_scores_that_are_not_finite_are_refused(value, criterion, message, passes):
    images, *captions = vectors()
    images[550] = value
    with pytest.raises(InputError, match=message):
        both(sides_of(images, *captions), criterion)
    assert criterion != "nns" or True not in passes


@pytest.mark.parametrize(
    "count",
    [
        *((images, 1700) for images in (512, 513, 514, 516, 520, 767, 900, 1010)),
        *((900, captions) for captions in (1024, 1025, 1026, 1028, 1032, 1537)),
        *[(512, 1024), (513, 1025), (514, 1026), (516, 1028), (767, 1537)],
    ],
)
def test_strips_and_tiles_of_any_height_and_width_agree(count, passes, monkeypatch):
    found = both(sides_of(*vectors(count=count)), "csls")
    assert passes == [True, True]
    check_strips_give_the_same(found, sides_of(*vectors(count=count)), "csls", monkeypatch)


def test_a_bank_of_other_queries_is_passed_by_itself(passes, monkeypatch):
    images, captions, owners = vectors()
    bank = vectors(count=(700, 1400))

    def sides():
        one = Scores.from_sides(bank[0], captions, product)
        back = Scores.from_sides(images, bank[1], product).transposed()
        own = sides_of(images, captions, owners)
        return [Trial(side.scores, Bank(of, False), side.truth) for side, of in zip(own, (one, back), strict=True)]

    found = both(sides(), "csls")
    assert passes == [True] * 4
    check_strips_give_the_same(found, sides(), "csls", monkeypatch)


def test_queries_of_many_correct_items_are_left_to_the_strips(passes, monkeypatch):
    images, captions, owners = vectors()
    owners[IMAGES:] = np.where(np.arange(CAPTIONS - IMAGES) < 40, 7, owners[IMAGES:])
    found = both(sides_of(images, captions, owners), "nns")
    assert passes == []
    check_strips_give_the_same(found, sides_of(images, captions, owners), "nns", monkeypatch)


def test_means_that_would_take_more_than_half_of_the_memory_are_left_to_the_strips(passes):
    images, captions, _ = vectors()
    scores = Scores.from_sides(images, captions, product)
    scores.parts = replace(scores.parts, memory=1)
    assert tiles.tile_means(scores, 128) is None
    assert tiles.tile_means(scores, 32) is not None
    assert passes == [True]


few_values = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.sampled_from([0.0, 1, 2, 3])
)


@given(few_values, st.integers(1, 15))
def test_ties_go_to_the_lowest_index_and_means_take_what_there_is(scores, k):
    values, columns = top_k(torch.from_numpy(scores), k)
    assert columns.tolist() == [naive.top(row, k) for row in scores.tolist()]
    assert torch.equal(values, torch.from_numpy(scores).gather(1, columns))
    expected = [np.mean(sorted(row, reverse=True)[:k]) for row in scores.tolist()]
    np.testing.assert_allclose(mean_of_top(Scores.dense(torch.from_numpy(scores)), k), expected)


@pytest.mark.parametrize(("rows", "items", "k", "levels"), [(3, 2000, 10, 1), (2, 3000, 2000, 5)])
def test_long_lists_with_few_values(rows, items, k, levels):
    scores = torch.from_numpy(np.random.default_rng(0).integers(0, levels, (rows, items)).astype(np.float64))
    assert top_k(scores, k)[1].tolist() == [naive.top(row, k) for row in scores.tolist()]


def test_rows_without_ties_are_plain_top_k():
    scores = torch.from_numpy(np.random.default_rng(0).standard_normal((50, 300)))
    values, columns = top_k(scores, 10)
    assert torch.equal(values, scores.topk(10).values)
    assert torch.equal(columns, scores.topk(10).indices)


def test_absent_entries_come_last_and_do_not_disturb_the_others():
    values, columns = top_k(torch.tensor([[2.0, -torch.inf, 1.0, 1.0, -torch.inf]]), 4)
    assert columns[0, :3].tolist() == [0, 2, 3]
    assert values[0].tolist() == [2.0, 1.0, 1.0, -torch.inf]


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 3, 50, 10**6])
def test_the_compiled_loop_keeps_to_the_priority(levels, precision):
    """Long rows and long lists; with one level every score is the same."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, levels, (3, 5000)).astype(precision)
    priority = rng.permutation(5000)
    values, columns = top_k(torch.from_numpy(scores), 200, priority)
    for row, found, kept in zip(scores, columns.numpy(), values.numpy(), strict=True):
        expected = np.lexsort((priority, -row))[:200]
        assert found.tolist() == expected.tolist()
        assert kept.tolist() == row[expected].tolist()


def test_ties_throughout_a_long_row_take_no_time():
    started = time.perf_counter()
    top_k(torch.zeros(20, 25_000), 128, np.random.default_rng(0).permutation(25_000))
    assert time.perf_counter() - started < 2
