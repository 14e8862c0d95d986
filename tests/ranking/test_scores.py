import numpy as np
import pytest
import torch

from vse_pipe.core.errors import UsageError
from vse_pipe.ranking.scores import STRIP, Scores


def vectors(rows: int, seed: int, dim: int = 33) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32))


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left @ right.T


def whole(scores: Scores) -> torch.Tensor:
    return torch.cat([block for _, block in scores.blocks()])


@pytest.mark.parametrize("queries", [1, 255, 256, 600])
def test_blocks_cover_every_row_once_and_in_order(queries):
    covered = list(Scores.from_sides(vectors(queries, 0), vectors(5, 1), product).blocks())
    assert [rows.start for rows, _ in covered] == list(range(0, queries, STRIP))
    assert [rows.stop for rows, _ in covered] == [*range(STRIP, queries, STRIP), queries]
    assert all(rows.stop - rows.start == len(values) for rows, values in covered)


def test_scores_are_the_similarity_and_the_transpose_its_transpose():
    queries, items = vectors(300, 0), vectors(40, 1)

    def order(left, right):
        return -(right[None] - left[:, None]).clamp_min(0).square().sum(dim=2)

    scores = Scores.from_sides(queries, items, order)
    torch.testing.assert_close(whole(scores), order(queries, items))
    torch.testing.assert_close(whole(scores.transposed()), order(queries, items).T)
    torch.testing.assert_close(whole(scores.transposed().transposed()), order(queries, items))
    assert scores.shape == (300, 40)
    assert scores.transposed().shape == (40, 300)


def test_a_dense_matrix_keeps_its_precision():
    matrix = torch.rand(300, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(whole(Scores.dense(matrix)), matrix)
    assert torch.equal(whole(Scores.dense(matrix).transposed()), matrix.T)


def test_the_similarity_never_sees_more_than_a_strip_of_queries():
    heights = []

    def watched(left, right):
        heights.append((len(left), len(right)))
        return left @ right.T

    scores = Scores.from_sides(vectors(1000, 0), vectors(700, 1), watched)
    for _ in scores.blocks():
        pass
    assert {left for left, _ in heights} == {STRIP, 1000 % STRIP}
    heights.clear()
    for _ in scores.transposed().blocks():
        pass
    assert {right for _, right in heights} == {STRIP, 700 % STRIP}


def test_a_rescoring_gets_the_rows_it_covers():
    scores = Scores.dense(torch.zeros(600, 3)).mapped(
        lambda strip, rows: strip + torch.arange(rows.start, rows.stop)[:, None]
    )
    assert torch.equal(whole(scores), torch.arange(600.0)[:, None].expand(600, 3))


def test_rescored_scores_have_no_transpose():
    with pytest.raises(ValueError, match="transpose first, then rescore"):
        Scores.dense(torch.zeros(2, 3)).mapped(lambda strip, rows: strip).transposed()


def test_memory_holds_what_fits_its_share_and_refuses_what_is_too_little():
    passes = []

    def watched(left, right):
        passes.append(1)
        return left @ right.T

    queries, items = vectors(600, 0), vectors(1000, 1)
    for memory, sets, computed in [(64, 1, 3), (64, 4, 6), (64, 0, 6), (0, 1, 6)]:
        scores = Scores.from_sides(queries, items, watched, memory=memory, sets=sets)
        passes.clear()
        for _ in range(2):
            assert len(whole(scores)) == 600
        assert len(passes) == computed, (memory, sets)
    with pytest.raises(
        UsageError, match=r"evaluate.memory: 5 MiB is too little to rank 600 against 1000; give at least 6"
    ):
        Scores.from_sides(queries, items, watched, memory=5, sets=100)
    Scores.from_sides(queries, items, watched, memory=6, sets=100)


def held(similarity):
    return Scores.from_sides(vectors(600, 0), vectors(1700, 1), similarity, memory=64)


def test_scores_that_are_held_are_multiplied_once_for_both_directions():
    pairs = []

    def watched(left, right):
        pairs.append(len(left) * len(right))
        return left @ right.T

    apart = whole(Scores.from_sides(vectors(600, 0), vectors(1700, 1), product).transposed())
    assert torch.equal(whole(held(watched).transposed()), apart)
    # All pairs, two strips of the transpose that say whether moving changes a bit, and what is less than a strip.
    assert sum(pairs) == 600 * (1700 + 2 * STRIP + 1700 % STRIP)


def test_where_products_differ_both_ways_nothing_depends_on_the_memory():
    def shaky(left, right):
        return left @ right.T + 1e-3 * (len(left) > len(right))

    apart = Scores.from_sides(vectors(600, 0), vectors(1700, 1), shaky)
    assert not torch.equal(whole(apart.transposed()), whole(apart).T)
    assert torch.equal(whole(held(shaky).transposed()), whole(apart.transposed()))
    assert torch.equal(whole(held(shaky)), whole(apart))
