import numpy as np
import pytest
import torch

from tests.ranking.dense import product
from vse_pipe.core.errors import UsageError
from vse_pipe.ranking.scores import STRIP, Scores


def vectors(rows: int, seed: int, dim: int = 33) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32))


class Watched:
    """The product, with the sizes it was asked for."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def __call__(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        self.sizes.append((len(left), len(right)))
        return product(left, right)


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

    scores, expected = Scores.from_sides(queries, items, order), order(queries, items)
    turned = scores.transposed()
    for found, wanted in ((scores, expected), (turned, expected.T), (turned.transposed(), expected)):
        torch.testing.assert_close(whole(found), wanted)
        assert found.shape == tuple(wanted.shape)


def test_a_dense_matrix_keeps_its_precision():
    matrix = torch.rand(300, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(whole(Scores.dense(matrix)), matrix)
    assert torch.equal(whole(Scores.dense(matrix).transposed()), matrix.T)


def test_the_similarity_never_sees_more_than_a_strip_of_queries():
    watched = Watched()
    scores = Scores.from_sides(vectors(1000, 0), vectors(700, 1), watched)
    whole(scores)
    assert {left for left, _ in watched.sizes} == {STRIP, 1000 % STRIP}
    watched.sizes.clear()
    whole(scores.transposed())
    assert {right for _, right in watched.sizes} == {STRIP, 700 % STRIP}


def test_a_rescoring_gets_the_rows_it_covers():
    numbered = torch.arange(600.0)[:, None].expand(600, 3)
    scores = Scores.dense(torch.zeros(600, 3)).mapped(lambda strip, rows: strip + numbered[rows])
    assert torch.equal(whole(scores), numbered)
    with pytest.raises(ValueError, match="transpose first, then rescore"):
        scores.transposed()


def test_memory_holds_what_fits_its_share_and_refuses_what_is_too_little():
    queries, items, watched = vectors(600, 0), vectors(1000, 1), Watched()
    for memory, sets, computed in [(64, 1, 3), (64, 4, 6), (64, 0, 6), (0, 1, 6)]:
        scores = Scores.from_sides(queries, items, watched, memory=memory, sets=sets)
        watched.sizes.clear()
        assert [len(whole(scores)) for _ in range(2)] == [600, 600]
        assert len(watched.sizes) == computed, (memory, sets)
    message = r"evaluate.memory: 5 MiB is too little to rank 600 against 1000; give at least 6"
    with pytest.raises(UsageError, match=message):
        Scores.from_sides(queries, items, watched, memory=5, sets=100)
    Scores.from_sides(queries, items, watched, memory=6, sets=100)


def held(similarity):
    return Scores.from_sides(vectors(600, 0), vectors(1700, 1), similarity, memory=64)


def test_scores_that_are_held_are_multiplied_once_for_both_directions():
    watched = Watched()
    apart = whole(Scores.from_sides(vectors(600, 0), vectors(1700, 1), product).transposed())
    assert torch.equal(whole(held(watched).transposed()), apart)
    # All pairs, two strips of the transpose that say whether moving changes a bit, and what is less than a strip.
    assert sum(left * right for left, right in watched.sizes) == 600 * (1700 + 2 * STRIP + 1700 % STRIP)


def test_where_products_differ_both_ways_nothing_depends_on_the_memory():
    def shaky(left, right):
        return left @ right.T + 1e-3 * (len(left) > len(right))

    apart = Scores.from_sides(vectors(600, 0), vectors(1700, 1), shaky)
    assert not torch.equal(whole(apart.transposed()), whole(apart).T)
    assert torch.equal(whole(held(shaky).transposed()), whole(apart.transposed()))
    assert torch.equal(whole(held(shaky)), whole(apart))
