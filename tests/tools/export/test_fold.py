import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.scores import Scores
from vse_pipe.tools.export import folded

FOLDABLE = [name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias]
# Inner products further apart than this, float64, are in the same order whatever the order of summation.
_APART = 1e-12


def vectors(rng: np.random.Generator, rows: int, dim: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((rows, dim))), dim=1)


@settings(deadline=None, max_examples=30)
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", FOLDABLE)
@given(rows=st.integers(2, 9), columns=st.integers(2, 9), dim=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_inner_products_rank_as_the_criterion_does(name, own, rows, columns, dim, seed):
    rng = np.random.default_rng(seed)
    queries, items, others = (vectors(rng, count, dim) for count in (rows, columns, 7))
    reference, kept = (queries, items) if own else (others, vectors(rng, 5, dim))
    scores = Scores.dense(queries @ items.T)
    bank_scores = scores if own else Scores.dense(reference @ items.T)
    bank = Bank(bank_scores, own, lambda: Scores.dense(kept @ items.T))
    criterion = criteria.parse(name, {})
    wanted = torch.cat([block for _, block in criterion.rerank(scores, bank).blocks()])
    left, right = folded(queries, items, criterion.item_bias(bank))
    assert left.dtype == right.dtype == torch.float64
    found = left @ right.T
    ahead = found[:, :, None] - found[:, None, :] > _APART
    assert (~ahead | (wanted[:, :, None] > wanted[:, None, :])).all()
    assert ahead.any() or (found.amax(dim=1) - found.amin(dim=1) <= _APART).all()


def test_the_last_dimension_is_the_correction_and_its_factor():
    bias = ItemBias(2.0, torch.tensor([1.0, -3.0], dtype=torch.float64))
    queries, items = folded(torch.tensor([[0.5]]), torch.tensor([[0.25], [0.125]]), bias)
    assert queries.tolist() == [[0.5, 1.0]]
    assert items.tolist() == [[0.25, -1.0], [0.125, 1.0]]
    assert queries.dtype == items.dtype == torch.float32


def test_a_correction_beyond_the_precision_is_refused():
    bias = ItemBias(1.0, torch.tensor([1e300, -1e300], dtype=torch.float64))
    with pytest.raises(InputError, match="leaves the range of the vectors' precision"):
        folded(torch.ones(1, 1), torch.ones(2, 1), bias)


def test_a_scale_that_turns_the_order_round_is_refused():
    with pytest.raises(ValueError, match="turns the order round"):
        folded(torch.ones(1, 1), torch.ones(1, 1), ItemBias(-1.0, torch.zeros(1)))
