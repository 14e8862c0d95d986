from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.train.losses.contract import OWNERS, batch_of, check_contract, some_batch, some_scores, some_vectors
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored
from vse_pipe.train.data import Incidence
from vse_pipe.train.losses.structure import euclidean, hardest_triplets

member = LOSSES.load("structure")
VARIANTS = pytest.mark.parametrize("variant", ["paper", "topk_mean"])
ORACLES = {"paper": naive.structure, "topk_mean": naive.structure_code}


@VARIANTS
def test_contract(variant):
    check_contract(member, member.Params(margin=3.0, variant=variant))


@VARIANTS
@settings(deadline=None)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    margin=st.floats(0, 1.5),
    factors=st.tuples(st.floats(0, 3), st.floats(0, 3)),
    top=st.integers(1, 9),
)
def test_equals_plain_loops(variant, pairs, seed, owners, margin, factors, top):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]))
    lambda1, lambda3 = factors
    params = member.Params(margin=margin, lambda1=lambda1, lambda3=lambda3, top=top, variant=variant)
    ours = member.loss(batch, params).per_pair
    sides = batch.images.tolist(), batch.texts.tolist(), batch.owners.tolist()
    expected = ORACLES[variant](*sides, margin, lambda1, lambda3, top)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@VARIANTS
def test_the_mask_is_inherent_and_scores_are_not_read(variant):
    params = member.Params(margin=2.0, variant=variant)
    batch = some_batch(owners=OWNERS)
    plain = member.loss(batch, params).per_pair
    assert torch.equal(member.loss(some_batch(owners=OWNERS, mask=True), params).per_pair, plain)
    other = Scored.from_scores(torch.zeros(7, 7), OWNERS, images=batch.images, texts=batch.texts)
    assert torch.equal(member.loss(other, params).per_pair, plain)


def test_scores_alone_are_refused():
    with pytest.raises(InputError, match="structure needs the vectors"):
        member.loss(Scored.from_scores(some_scores()), member.Params())


def test_the_authors_code_has_no_term_of_images():
    with pytest.raises(ValidationError, match="no term of images"):
        member.Params(lambda2=0.1, variant="topk_mean")


def test_where_every_text_has_one_image_the_term_of_images_is_0():
    batch = some_batch(owners=OWNERS)
    with_term, without = (member.loss(batch, member.Params(margin=2.0, lambda2=factor)) for factor in (3.0, 0.0))
    assert torch.equal(with_term.per_pair, without.per_pair)
    assert with_term.parts["within images"] == 0


@settings(deadline=None)
@given(
    seed=st.integers(0, 1000),
    taken=st.lists(st.integers(0, 17), min_size=2, max_size=9, unique=True),
    factors=st.tuples(st.floats(0, 3), st.floats(0, 3), st.floats(0, 3)),
    margin=st.floats(0, 1.5),
    top=st.integers(1, 6),
    mined=st.lists(st.integers(0, 1), min_size=0, max_size=4),
)
def test_many_to_many_equals_plain_loops(seed, taken, factors, margin, top, mined):
    """Eighteen pairs of six images and five texts, of which a batch takes some."""
    rng = np.random.default_rng(seed)
    owners, said = rng.integers(0, 6, 18), rng.integers(0, 5, 18)
    pairs = np.array(taken)
    batch = batch_of(*_by_name(owners[pairs], said[pairs], seed))
    matches = Incidence.from_pairs(owners, said).matches(pairs, torch.device("cpu"))
    vectors, mined_for = some_vectors(len(mined), seed + 1)[0], torch.tensor(mined, dtype=torch.int64)
    batch = replace(batch, matches=matches, mined=vectors, mined_for=mined_for)
    lambda1, lambda2, lambda3 = factors
    params = member.Params(margin=margin, lambda1=lambda1, lambda2=lambda2, lambda3=lambda3, top=top)
    sides = [
        {int(name): vector for name, vector in zip(reversed(names), reversed(vectors.tolist()), strict=True)}
        for names, vectors in ((owners[pairs].tolist(), batch.images), (said[pairs].tolist(), batch.texts))
    ]
    seen = set(zip(owners.tolist(), said.tolist(), strict=True))
    extra = [(int(said[pairs[one]]), vector) for one, vector in zip(mined, vectors.tolist(), strict=True)]
    expected = naive.structure_in_full(*(list(side.items()) for side in sides), seen, factors, margin, top, extra)
    found = member.loss(batch, params)
    assert found.total().item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    mean = member.loss(batch, params.model_copy(update={"reduction": "mean"})).total().item()
    assert mean == pytest.approx(expected / len(pairs), rel=1e-9, abs=1e-9)


def _by_name(owners: np.ndarray, said: np.ndarray, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    images, texts = some_vectors(6, seed)
    return images[torch.from_numpy(owners)], texts[torch.from_numpy(said)]


def test_gradient_of_many_to_many_is_the_slope():
    owners, said = np.array([0, 0, 1, 2, 2, 3]), np.array([0, 1, 0, 1, 2, 3])
    matches = Incidence.from_pairs(owners, said).matches(np.arange(6), torch.device("cpu"))
    params = member.Params(margin=0.7, lambda2=0.3, reduction="mean")
    mined = some_vectors(2, 9)[0].requires_grad_()

    def total(images, texts, mined):
        batch = batch_of(images, texts)
        return member.loss(replace(batch, matches=matches, mined=mined, mined_for=torch.tensor([1, 4])), params).total()

    assert torch.autograd.gradcheck(total, (*(side.requires_grad_() for side in some_vectors(6, 3)), mined))


def test_what_is_mined_for_a_text_is_a_negative_of_no_other():
    batch = some_batch(4, 2)
    mined = some_vectors(1, 5)[0]
    plain, more = (
        member.loss(one, member.Params(margin=3.0, lambda3=0.0)).per_pair
        for one in (batch, replace(batch, mined=mined, mined_for=torch.tensor([2])))
    )
    assert (more != plain).tolist() == [False, False, True, False]


def test_a_caption_of_the_same_image_is_no_negative():
    """Two captions of one image lie on it and on each other: nothing is violated, unlike two images."""
    point = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    owners = torch.tensor([5, 5, 8])
    assert member.loss(batch_of(point, point, owners), member.Params()).total().item() == 0
    assert member.loss(batch_of(point, point), member.Params()).total().item() > 0


def test_within_view_pulls_siblings_together():
    """Only lambda3 acts: texts of one image move towards each other, more than to the foreign one."""
    texts = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]], requires_grad=True)
    images = torch.zeros(3, 2)
    batch = batch_of(images, texts, torch.tensor([5, 5, 8]))
    params = {
        name: member.Params(margin=0.5, lambda1=0.0, lambda3=value) for name, value in (("on", 1.0), ("off", 0.0))
    }
    difference = member.loss(batch, params["on"]).total() - member.loss(batch, params["off"]).total()
    difference.backward()
    step = texts.detach() - 0.01 * texts.grad
    before, after = euclidean(texts.detach(), texts.detach()), euclidean(step, step)
    assert after[0, 1] < before[0, 1]
    assert after[0, 1] - after[0, 2] < before[0, 1] - before[0, 2]


@VARIANTS
def test_equal_vectors_have_finite_gradients(variant):
    images, texts = (torch.ones(4, 3, requires_grad=True) for _ in range(2))
    batch = batch_of(images, texts, torch.tensor([0, 0, 1, 1]))
    total = member.loss(batch, member.Params(variant=variant)).total()
    total.backward()
    assert total.item() > 0
    assert torch.isfinite(images.grad).all()
    assert torch.isfinite(texts.grad).all()


@VARIANTS
def test_gradient_is_the_slope(variant):
    """The vectors of an image's first pair carry the gradient of all its pairs."""
    images, texts = (side.requires_grad_() for side in some_vectors(5, 2))
    owners, params = torch.tensor([3, 1, 3, 4, 1]), member.Params(margin=0.7, variant=variant)

    def share(images, texts):
        return member.loss(batch_of(images, texts, owners), params).per_pair

    assert torch.autograd.gradcheck(share, (images, texts))
    share(images, texts).sum().backward()
    assert images.grad.any(dim=1).tolist() == [True, True, False, True, False]


def test_fewer_kept_triplets_cost_no_more():
    batch = some_batch(9, 1)
    one, three, all_of_them = (member.loss(batch, member.Params(margin=1.0, top=top)).per_pair for top in (1, 3, 50))
    assert (one <= three).all()
    assert (three <= all_of_them).all()
    assert (three < all_of_them).any()


def test_hardest_keeps_the_nearest_negatives_in_falling_order():
    distances = torch.tensor([[0.5, 0.1, 0.9, 0.3]])
    matching = torch.tensor([[False, True, False, False]])
    kept = hardest_triplets(torch.tensor([0.4, 0.1]), torch.tensor([0, 0]), distances, matching, margin=0.25, top=2)
    torch.testing.assert_close(kept, torch.tensor([[0.35, 0.15], [0.05, 0.0]]))


def test_euclidean_distance_of_equal_points_is_0_or_the_root_of_the_floor():
    point = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    assert euclidean(point, point).item() == 0
    assert euclidean(point, point, floor=1e-4).item() == pytest.approx(0.01)
    assert euclidean(point, -point).item() == pytest.approx(2)


@VARIANTS
def test_a_top_beyond_what_a_number_can_say_is_all(variant):
    batch = some_batch(owners=OWNERS)
    everything, beyond = (member.Params(margin=2.0, top=top, variant=variant) for top in (7, 2**64))
    assert torch.equal(member.loss(batch, beyond).per_pair, member.loss(batch, everything).per_pair)
