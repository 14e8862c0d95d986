import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.naive import evaluate as naive
from tests.ranking.dense import product
from vse_pipe.ranking.scores import Scores, mean_of_top, top_k


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


def test_scores_are_the_similarity_and_the_transpose_its_transpose():
    queries, items = vectors(300, 0), vectors(40, 1)

    def order(left, right):
        return -(right[None] - left[:, None]).clamp_min(0).square().sum(dim=2)

    scores, expected = Scores.from_sides(queries, items, order), order(queries, items)
    turned = scores.transposed()
    for found, wanted in ((scores, expected), (turned, expected.T), (turned.transposed(), expected)):
        torch.testing.assert_close(whole(found), wanted)
        assert found.shape == tuple(wanted.shape)


def test_a_rescoring_gets_the_rows_it_covers():
    numbered = torch.arange(600.0)[:, None].expand(600, 3)
    scores = Scores.dense(torch.zeros(600, 3)).mapped(lambda strip, rows: strip + numbered[rows])
    assert torch.equal(whole(scores), numbered)
    with pytest.raises(ValueError, match="transpose first, then rescore"):
        scores.transposed()


def test_memory_holds_what_fits_its_share():
    queries, items, watched = vectors(600, 0), vectors(1000, 1), Watched()
    for memory, sets, computed in [(64, 1, 1), (64, 7, 6), (64, 0, 6), (0, 1, 6)]:
        scores = Scores.from_sides(queries, items, watched, memory=memory, sets=sets)
        watched.sizes.clear()
        assert [len(whole(scores)) for _ in range(2)] == [600, 600]
        assert len(watched.sizes) == computed, (memory, sets)


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


def test_absent_entries_come_last_and_do_not_disturb_the_others():
    values, columns = top_k(torch.tensor([[2.0, -torch.inf, 1.0, 1.0, -torch.inf]]), 4)
    assert columns[0, :3].tolist() == [0, 2, 3]
    assert values[0].tolist() == [2.0, 1.0, 1.0, -torch.inf]
