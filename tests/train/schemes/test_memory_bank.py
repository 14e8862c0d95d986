from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import some_scores, some_vectors
from tests.train.some import some_pairs, some_scheme
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import SCHEMES
from vse_pipe.train.data import Incidence
from vse_pipe.train.schemes import memory_bank
from vse_pipe.train.schemes.memory_bank import left_out, weights
from vse_pipe.train.schemes.options import MemoryBankOptions as Params

CPU = torch.device("cpu")


def _bank(epoch: int = 1, share: float = 0.5, train=None, **options):
    pairs = some_pairs(40, each=4)
    scheme = some_scheme(pairs, "hal", "memory_bank", train=train, share=share, **options)
    scheme.start(epoch)
    return pairs, scheme


def test_the_first_epoch_has_no_bank():
    pairs, scheme = _bank(epoch=0)
    batch = pairs.batch(np.arange(6))
    assert scheme.scored(*scheme.setting.model.encode(batch, CPU), batch).weights is None


def test_the_bank_is_whole_batches_of_the_training_set_encoded_without_dropout():
    pairs, scheme = _bank(share=0.4)
    places = scheme.pairs.numpy()
    assert len(places) % 8 == 0
    assert 0 < len(places) < 40
    assert len(set(places.tolist())) == len(places)
    batch = pairs.batch(places)
    with torch.no_grad():
        images, texts = scheme.setting.model.eval().encode(batch, CPU)
    torch.testing.assert_close(scheme.images, images)
    torch.testing.assert_close(scheme.texts, texts)
    assert scheme.owners.tolist() == pairs.owners[places].tolist()


def test_a_bank_follows_from_seed_and_epoch_and_the_next_epoch_has_another():
    first, again, other = (_bank(epoch)[1].pairs.tolist() for epoch in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_share_too_small_for_one_batch_still_gives_one():
    assert len(_bank(share=1e-9)[1].pairs) == 8


def test_shares_are_met_on_average():
    module = SCHEMES.load("memory_bank")
    sizes = [len(module._sampled(10_000, 50, 0.05, np.random.default_rng(seed))) for seed in range(50)]
    assert 400 < np.mean(sizes) < 600


def test_a_bank_of_everything_weighs_like_eq_6_on_all_scores():
    pairs, scheme = _bank(share=1.0, k=7)
    batch = pairs.batch(np.array([0, 9, 17, 33]))
    images, texts = scheme.setting.model.encode(batch, CPU)
    weights = scheme.scored(images, texts, batch).weights
    assert weights.shape == (4, 4)
    assert not weights.requires_grad
    outside = torch.isin(scheme.pairs, torch.from_numpy(batch.pairs), invert=True)
    expected = memory_bank.weights(
        (images @ texts.T).detach(),
        images.detach() @ scheme.texts[outside].T,
        scheme.images[outside] @ texts.detach().T,
        torch.zeros(4, int(outside.sum()), dtype=torch.bool),
        scheme.params,
    )
    torch.testing.assert_close(weights, expected)


def test_excluding_by_image_leaves_the_pair_s_own_image_out():
    pairs, scheme = _bank(share=1.0, exclude="image")
    batch = pairs.batch(np.array([0, 9]))
    left_out = scheme._left_out(batch)
    own = torch.from_numpy(pairs.owners[[0, 9]])[:, None] == scheme.owners[None, :]
    in_batch = torch.isin(scheme.pairs, torch.tensor([0, 9]))
    assert torch.equal(left_out, own | in_batch[None, :])
    assert int(own.sum()) == 8
    by_caption = _bank(share=1.0)[1]._left_out(batch)
    assert int(by_caption.sum()) == 4


def test_texts_that_read_alike_are_one_and_belong_to_all_their_images():
    pairs = some_pairs(40, each=4)
    said = np.arange(40) % 15
    seen = {*zip(pairs.owners.tolist(), said.tolist(), strict=True), (10, 14)}
    known = Incidence.from_pairs(pairs.owners, said, np.array([10]), np.array([14]))
    batch = np.array([0, 9])
    for exclude in ("caption", "image"):
        scheme = some_scheme(
            replace(pairs, incidence=known), "hal", "memory_bank", train=None, share=1.0, exclude=exclude
        )
        scheme.start(1)
        places = scheme.pairs.tolist()
        expected = [
            [
                said[j] in said[batch]
                or (exclude == "image" and ((pairs.owners[i], said[j]) in seen or (pairs.owners[j], said[i]) in seen))
                for j in places
            ]
            for i in batch
        ]
        assert scheme._left_out(pairs.batch(batch)).tolist() == expected


def test_the_loss_is_finite_and_reaches_both_sides():
    pairs, scheme = _bank(share=1.0)
    batch = pairs.batch(np.arange(0, 40, 5))
    images, texts = (side.detach().requires_grad_() for side in scheme.setting.model.encode(batch, CPU))
    scheme.terms(images, texts, batch).total().backward()
    for side in (images, texts):
        assert torch.isfinite(side.grad).all()
        assert side.grad.any()


def test_memory_is_said(capsys):
    _bank(share=1.0)
    assert "memory bank: 40 pairs, 0.0 MiB" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0])
def test_a_share_must_be_a_share(share):
    with pytest.raises(ValueError, match="share"):
        SCHEMES.options("memory_bank")(share=share)


def test_a_batch_larger_than_the_data_set_is_a_batch_of_all():
    assert sorted(_bank(share=1e-9, train={"batch_size": 2**60})[1].pairs.tolist()) == list(range(40))


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
