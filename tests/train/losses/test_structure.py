"""STRUCTURE of the paper and of its code against loops, also where images and texts match many to many."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.train.losses.contract import DRAWN, OWNERS, batch_of, check_contract, some_batch, some_scores, some_vectors
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.matches import Incidence
from vse_pipe.train.scored import LossTerms, Scored

CPU, member = torch.device("cpu"), LOSSES.load("structure")
FACTOR, MARGIN = st.floats(0, 3), st.floats(0, 1.5)
VARIANTS = pytest.mark.parametrize("variant", ["paper", "topk_mean"])
ORACLES = {"paper": naive.structure, "topk_mean": naive.structure_code}


def _loss(batch: Scored, **options) -> LossTerms:
    return member.loss(batch, member.Params(**options))


@VARIANTS
def test_contract_and_finite_gradients_of_equal_vectors(variant):
    check_contract(member, member.Params(margin=3.0, variant=variant))
    images, texts = (torch.ones(4, 3, requires_grad=True) for _ in range(2))
    total = _loss(batch_of(images, texts, torch.tensor([0, 0, 1, 1])), variant=variant).total()
    total.backward()
    assert total.item() > 0
    assert all(torch.isfinite(side.grad).all() for side in (images, texts))


@VARIANTS
@settings(deadline=None)
@given(**DRAWN, margin=MARGIN, factors=st.tuples(FACTOR, FACTOR), top=st.integers(1, 9))
def test_equals_plain_loops(variant, pairs, seed, owners, margin, factors, top):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]))
    found = _loss(batch, margin=margin, lambda1=factors[0], lambda3=factors[1], top=top, variant=variant).per_pair
    sides = batch.images.tolist(), batch.texts.tolist(), batch.owners.tolist()
    expected = ORACLES[variant](*sides, margin, *factors, top)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_what_has_no_meaning_is_refused():
    with pytest.raises(InputError, match="structure needs the vectors"):
        _loss(Scored.from_scores(some_scores()))
    with pytest.raises(ValidationError, match="no term of images"):
        member.Params(lambda2=0.1, variant="topk_mean")
    batch = some_batch(owners=OWNERS)
    with_term, without = (_loss(batch, margin=2.0, lambda2=factor) for factor in (3.0, 0.0))
    assert torch.equal(with_term.per_pair, without.per_pair)


@settings(deadline=None)
@given(
    seed=st.integers(0, 1000),
    taken=st.lists(st.integers(0, 17), min_size=2, max_size=9, unique=True),
    factors=st.tuples(FACTOR, FACTOR, FACTOR),
    margin=MARGIN,
    top=st.integers(1, 6),
    mined=st.lists(st.integers(0, 1), min_size=0, max_size=4),
)
def test_many_to_many_equals_plain_loops(seed, taken, factors, margin, top, mined):
    """Eighteen pairs of six images and five texts, of which a batch takes some."""
    rng = np.random.default_rng(seed)
    owners, said = rng.integers(0, 6, 18), rng.integers(0, 5, 18)
    pairs, (images, texts) = np.array(taken), some_vectors(6, seed)
    vectors = some_vectors(len(mined), seed + 1)[0]
    batch = replace(
        batch_of(images[torch.from_numpy(owners[pairs])], texts[torch.from_numpy(said[pairs])]),
        matches=Incidence.from_pairs(owners, said).matches(pairs),
        mined=vectors,
        mined_for=torch.tensor(mined, dtype=torch.int64),
    )
    params = member.Params(margin=margin, top=top, **dict(zip(("lambda1", "lambda2", "lambda3"), factors, strict=True)))
    sides = [
        {int(name): vector for name, vector in zip(reversed(names), reversed(vectors.tolist()), strict=True)}
        for names, vectors in ((owners[pairs].tolist(), batch.images), (said[pairs].tolist(), batch.texts))
    ]
    seen = set(zip(owners.tolist(), said.tolist(), strict=True))
    extra = [(int(said[pairs[one]]), vector) for one, vector in zip(mined, vectors.tolist(), strict=True)]
    expected = naive.structure_in_full(*(list(side.items()) for side in sides), seen, factors, margin, top, extra)
    for reduction, count in (("sum", 1), ("mean", len(pairs))):
        found = member.loss(batch, params.model_copy(update={"reduction": reduction})).total().item()
        assert found == pytest.approx(expected / count, rel=1e-9, abs=1e-9), reduction


def test_gradient_of_many_to_many_is_the_slope():
    owners, said = np.array([0, 0, 1, 2, 2, 3]), np.array([0, 1, 0, 1, 2, 3])
    matches = Incidence.from_pairs(owners, said).matches(np.arange(6))
    options, more = (
        {"margin": 0.7, "lambda2": 0.3, "reduction": "mean"},
        {"matches": matches, "mined_for": torch.tensor([1, 4])},
    )
    sides = [side.requires_grad_() for side in (*some_vectors(6, 3), some_vectors(2, 9)[0])]
    assert torch.autograd.gradcheck(
        lambda images, texts, mined: _loss(replace(batch_of(images, texts), mined=mined, **more), **options).total(),
        sides,
    )


@VARIANTS
def test_gradient_is_the_slope(variant):
    """The vectors of an image's first pair carry the gradient of all its pairs."""
    images, texts = (side.requires_grad_() for side in some_vectors(5, 2))

    def share(images, texts):
        return _loss(batch_of(images, texts, torch.tensor([3, 1, 3, 4, 1])), margin=0.7, variant=variant).per_pair

    assert torch.autograd.gradcheck(share, (images, texts))
    share(images, texts).sum().backward()
    assert images.grad.any(dim=1).tolist() == [True, True, False, True, False]
