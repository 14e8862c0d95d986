"""The bank by its steps, and its weights against loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.train.losses.contract import some_vectors
from tests.train.some import CPU, some_pairs, some_scheme
from vse_pipe.core.errors import UsageError
from vse_pipe.project.registry import SCHEMES
from vse_pipe.train.matches import Incidence
from vse_pipe.train.schemes.memory_bank import weights
from vse_pipe.train.schemes.options import MemoryBankOptions as Params

VARIANTS = pytest.mark.parametrize("variant", ["paper", "code"])


def _bank(epoch: int = 1, share: float = 0.5, train=None, incidence=None, **options):
    pairs = replace(some_pairs(40, each=4), incidence=incidence)
    scheme = some_scheme(pairs, "hal", "memory_bank", train=train, share=share, **options)
    scheme.start(epoch)
    return pairs, scheme


def test_the_bank_is_whole_batches_encoded_without_dropout_and_follows_from_seed_and_epoch():
    pairs, scheme = _bank(share=0.4)
    places = scheme.chosen
    assert len(places) % 8 == 0
    assert 0 < len(set(places.tolist())) == len(places) < 40
    with torch.no_grad():
        images, texts = scheme.setting.model.eval().encode(pairs.batch(places), CPU)
    torch.testing.assert_close((scheme.images, scheme.texts), (images, texts))
    first, again, other = (_bank(epoch)[1].chosen.tolist() for epoch in (1, 1, 2))
    assert first == again != other
    pairs, scheme = _bank(epoch=0)
    batch = pairs.batch(np.arange(6))
    assert scheme.scored(*scheme.setting.model.encode(batch, CPU), batch).weights is None
    assert [_bank(epoch, begins=0)[1].images is None for epoch in (0, 1)] == [False, False]
    assert [_bank(epoch, begins=2)[1].images is None for epoch in (1, 2)] == [True, False]
    module = SCHEMES.load("memory_bank")
    sizes = [len(module._sampled(10_000, 50, 0.05, np.random.default_rng(seed))) for seed in range(50)]
    assert 400 < np.mean(sizes) < 600
    assert len(_bank(share=1e-9)[1].chosen) == 8


def test_a_bank_that_lies_inside_every_batch_is_refused():
    with pytest.raises(UsageError, match="a batch of 40 holds all 40"):
        _bank(train={"batch_size": 40})


def test_a_bank_of_everything_weighs_like_eq_6_on_all_scores():
    pairs, scheme = _bank(share=1.0, k=7)
    batch = pairs.batch(np.array([0, 9, 17, 33]))
    images, texts = scheme.setting.model.encode(batch, CPU)
    found = scheme.scored(images, texts, batch).weights
    assert found.shape == (4, 4)
    assert not found.requires_grad
    images, texts = images.detach(), texts.detach()
    outside = torch.isin(torch.from_numpy(scheme.chosen), torch.from_numpy(batch.pairs), invert=True)
    none = torch.zeros(int(outside.sum()), dtype=torch.bool)
    beside = images @ scheme.texts[outside].T, scheme.images[outside] @ texts.T
    torch.testing.assert_close(found, weights(images @ texts.T, *beside, none, scheme.params))


def test_texts_that_read_alike_are_one():
    owners, said, batch = some_pairs(40, each=4).owners, np.arange(40) % 15, np.array([0, 9])
    _, scheme = _bank(share=1.0, incidence=Incidence.from_pairs(owners, said))
    assert scheme._left_out(batch).tolist() == [said[entry] in said[batch] for entry in scheme.chosen]


def test_the_loss_reaches_both_sides():
    pairs, scheme = _bank(share=1.0)
    batch = pairs.batch(np.arange(0, 40, 5))
    images, texts = (side.detach().requires_grad_() for side in scheme.setting.model.encode(batch, CPU))
    scheme.terms(images, texts, batch).total().backward()
    assert all(torch.isfinite(side.grad).all() and side.grad.any() for side in (images, texts))


def some_case(pairs: int, bank: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores of a batch, of its images and its texts against a bank, and a third of the bank left out."""
    (images, texts), (bank_images, bank_texts) = some_vectors(pairs, seed), some_vectors(bank, seed + 1000)
    excluded = torch.rand(bank, generator=torch.Generator().manual_seed(seed)) < 0.3
    return images @ texts.T, images @ bank_texts.T, bank_images @ texts.T, excluded


@VARIANTS
@settings(deadline=None)
@given(
    pairs=st.integers(2, 6),
    bank=st.integers(1, 9),
    seed=st.integers(0, 50),
    options=st.fixed_dictionaries({
        **dict.fromkeys(("alpha", "beta"), st.floats(0.5, 40)),
        **dict.fromkeys(("eps1", "eps2"), st.floats(0, 1)),
        "k": st.integers(1, 12),
    }),
)  # fmt: skip
def test_equals_plain_loops(variant, pairs, bank, seed, options):
    case = some_case(pairs, bank, seed)
    *sides, excluded = (side.tolist() for side in case)
    expected = naive.bank_weights(*sides, [excluded] * pairs, options, variant == "code")
    ours = weights(*case, Params(variant=variant, **options))
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@VARIANTS
def test_a_large_temperature_overflows_nothing(variant):
    *sides, excluded = some_case(6, 8, 0)
    ours = weights(*(side.float() for side in sides), excluded, Params(alpha=1e4, beta=1e4, variant=variant))
    assert torch.isfinite(ours).all()
    assert 0 <= ours.min() < 1e-3, "some pair stands far above its neighbours"
    assert 0.999 < ours.max() <= 1, "some pair lies below its neighbours"


def test_without_neighbours_a_pair_weighs_nothing():
    scores, to_texts, to_images, _ = some_case(4, 6, 3)
    ours = weights(scores.requires_grad_(), to_texts, to_images, torch.ones(6, dtype=torch.bool), Params())
    assert not ours.any()
    assert not ours.requires_grad
