import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import some_scores, some_vectors
from vse_pipe.core.errors import InputError
from vse_pipe.train.schemes.memory_bank import Params
from vse_pipe.train.schemes.memory_bank.weights import left_out, weights

VARIANTS = pytest.mark.parametrize("variant", ["paper", "code"])


def some_case(pairs: int, bank: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores of a batch, of its images and its texts against a bank, and a third of the bank left out."""
    images, texts = some_vectors(pairs, seed)
    bank_images, bank_texts = some_vectors(bank, seed + 1000)
    generator = torch.Generator().manual_seed(seed)
    excluded = torch.rand(pairs, bank, generator=generator) < 0.3
    return images @ texts.T, images @ bank_texts.T, bank_images @ texts.T, excluded


@VARIANTS
@settings(deadline=None)
@given(
    pairs=st.integers(2, 6),
    bank=st.integers(1, 9),
    seed=st.integers(0, 50),
    alpha=st.floats(0.5, 40),
    beta=st.floats(0.5, 40),
    eps=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    k=st.integers(1, 12),
)
def test_equals_plain_loops(variant, pairs, bank, seed, alpha, beta, eps, k):
    case = some_case(pairs, bank, seed)
    options = {"alpha": alpha, "beta": beta, "eps1": eps[0], "eps2": eps[1], "k": k}
    ours = weights(*case, Params(variant=variant, **options))
    expected = naive.bank_weights(*(side.tolist() for side in case), options, variant == "code")
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@VARIANTS
def test_the_batch_as_its_own_bank_is_the_batch_among_itself(variant):
    """Positives left out, the neighbours of a pair are the negatives of its row and of its column."""
    scores = some_scores(6)
    own = left_out(torch.arange(6), torch.arange(6), whole_batch=False)
    ours = weights(scores, scores, scores, own, Params(k=5, variant=variant))
    a = b = 40.0
    margin = 0.2 if variant == "code" else 0.1
    for i in range(6):
        row, column = (torch.cat([scores[i, :i], scores[i, i + 1 :]]), torch.cat([scores[:i, i], scores[i + 1 :, i]]))
        near = torch.exp(a * (torch.cat([row, column]) - margin)).sum()
        held = torch.exp(a * (scores[i, i] - 0.2))
        torch.testing.assert_close(ours[i, i], 1 - held / (held + near))
    near = torch.cat([scores[1, [0, 2, 3, 4, 5]], scores[[0, 1, 2, 3, 5], 4]])
    if variant == "paper":
        near = torch.exp(b * (near - 0.1)).sum()
        held = torch.exp(b * (scores[1, 1] - 0.2)) + torch.exp(b * (scores[4, 4] - 0.2))
    else:
        near = torch.exp(b * near - 0.1).sum()
        held = torch.exp(b * scores[1, 1]) + torch.exp(b * scores[4, 4])
    torch.testing.assert_close(ours[1, 4], near / (near + held))


@VARIANTS
@settings(deadline=None)
@given(seed=st.integers(0, 50))
def test_the_order_of_the_bank_does_not_matter(variant, seed):
    scores, to_texts, to_images, excluded = some_case(5, 9, seed)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    params = Params(k=4, variant=variant)
    moved = weights(scores, to_texts[:, order], to_images[order], excluded[:, order], params)
    torch.testing.assert_close(moved, weights(scores, to_texts, to_images, excluded, params))


@VARIANTS
def test_a_large_temperature_overflows_nothing(variant):
    scores, to_texts, to_images, excluded = (
        side.float() if side.is_floating_point() else side for side in some_case(6, 8, 0)
    )
    ours = weights(scores, to_texts, to_images, excluded, Params(alpha=1e4, beta=1e4, variant=variant))
    assert torch.isfinite(ours).all()
    assert (ours >= 0).all()
    assert (ours <= 1).all()
    assert ours.min() < 1e-3, "some pair stands far above its neighbours"
    assert ours.max() > 0.999, "some pair lies below its neighbours"


def test_only_the_code_clamps_k_to_the_batch():
    scores, to_texts, to_images, _ = some_case(3, 9, 2)
    none = torch.zeros(3, 9, dtype=torch.bool)
    for variant, alike in (("code", True), ("paper", False)):
        many, few = (weights(scores, to_texts, to_images, none, Params(k=k, variant=variant)) for k in (9, 3))
        assert torch.equal(many, few) == alike


def test_a_denser_neighbourhood_weighs_more():
    scores, to_texts, to_images, _ = some_case(4, 6, 3)
    none = torch.zeros(4, 6, dtype=torch.bool)
    soft = Params(alpha=5.0, beta=5.0)
    before = weights(scores, to_texts, to_images, none, soft)
    closer = to_texts.clone()
    closer[1] += 0.3
    after = weights(scores, closer, to_images, none, soft)
    assert (after[1] > before[1]).all()
    torch.testing.assert_close(after[[0, 2, 3]], before[[0, 2, 3]])


def test_a_pair_without_neighbours_weighs_nothing_and_no_gradient_passes():
    scores, to_texts, to_images, excluded = some_case(4, 6, 3)
    excluded = torch.zeros_like(excluded)
    excluded[2] = True
    ours = weights(scores.requires_grad_(), to_texts, to_images, excluded, Params())
    assert ours[2, 2] == 0
    assert (ours[2, [0, 1, 3]] > 0).all(), "the other pair's text still has its neighbours"
    assert not ours.requires_grad


def test_an_empty_bank_is_refused():
    scores = some_scores(3)
    none = torch.zeros(3, 0)
    with pytest.raises(InputError, match="memory bank is empty"):
        weights(scores, none, none.T, none.bool(), Params())


def test_left_out_by_the_batch_or_by_the_pair():
    batch, bank = torch.tensor([4, 7]), torch.tensor([7, 1, 4, 4])
    assert left_out(batch, bank).tolist() == [[True, False, True, True]] * 2
    own = left_out(batch, bank, whole_batch=False)
    assert own.tolist() == [[False, False, True, True], [True, False, False, False]]
