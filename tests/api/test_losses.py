"""Losses of the Python door are those of the stage ``train``."""

import copy
import inspect
import pickle
from functools import partial

import pytest
import torch
from torch import nn

import vse_pipe as vp
from tests.api import refused
from vse_pipe.api import losses as page
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.matches import Matches
from vse_pipe.train.scored import Scored

CLASSES = {
    title.lower(): value for title, value in vars(page).items() if inspect.isfunction(value) and title[0].isupper()
}
PAIRS = torch.randn(2, 8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
OWNERS = torch.tensor([4, 4, 9, 2, 2, 2, 0, 7])


def test_every_loss_has_its_class_here_and_one_that_is_added_too():
    assert {getattr(page, name)().name for name in LOSSES.names()} == set(LOSSES.names())
    assert set(CLASSES) <= set(LOSSES.names())
    with pytest.raises(AttributeError, match="unknown loss 'HALL'"):
        _ = vp.losses.HALL


@pytest.mark.parametrize("owners", [None, OWNERS])
@pytest.mark.parametrize("name", CLASSES)
def test_value_and_gradient_are_those_of_the_stage(name, owners):
    sides = [side.clone().requires_grad_() for side in PAIRS]
    module = CLASSES[name]().double()
    value = module(*sides, owners)
    value.backward()
    again = [side.clone().requires_grad_() for side in PAIRS]
    unit = [nn.functional.normalize(side, dim=1) for side in again]
    matches = None if owners is None else Matches.by_owner(owners)
    batch = Scored.from_scores(unit[0] @ unit[1].T, owners, owners is not None, *unit, matches=matches)
    learned = {} if module.learned is None else {"network": LOSSES.load(name).network(module.options).double()}
    terms = LOSSES.load(name).loss(batch, module.options, **learned)
    expected = terms.total()
    expected.backward()
    assert torch.equal(value, expected)
    for side, other in zip(sides, again, strict=True):
        torch.testing.assert_close(side.grad, other.grad)
    torch.testing.assert_close(module(*sides, owners, reduction="none"), terms.per_pair)
    torch.testing.assert_close(module(*sides, owners, reduction="sum"), terms.per_pair.sum())
    if name != "structure":
        torch.testing.assert_close(module.from_scores(unit[0] @ unit[1].T, owners), expected)


@pytest.mark.parametrize("name", CLASSES)
def test_it_is_a_module_that_is_copied_saved_and_says_its_options(name):
    module = CLASSES[name]()
    value = module(*PAIRS.float())
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(*PAIRS.float()), value)
    assert repr(module).lower().startswith(f"{name}(")
    assert LOSSES.load(name).loss.__doc__.splitlines()[0] in CLASSES[name].__doc__
    assert list(inspect.signature(CLASSES[name]).parameters) == list(LOSSES.options(name).model_fields)


def test_a_learned_temperature_is_trained():
    module = vp.losses.InfoNCE(tau=0.1, learn=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = float(module.learned().detach())
    module(*PAIRS.float()).backward()
    optimizer.step()
    assert float(module.learned().detach()) != before


def test_similarity_weights_and_targets_reach_the_loss():
    images, texts = PAIRS
    order = lambda left, right: -(right[None] - left[:, None]).relu().square().sum(dim=2)  # noqa: E731
    module = vp.losses.SUM(margin=0.1)
    assert torch.equal(module(images, texts, similarity=order), module.from_scores(order(images, texts)))
    assert torch.equal(module(images, texts, similarity="dot"), module.from_scores(images @ texts.T))
    weights = torch.rand(8, 8, dtype=torch.float64)
    hal = vp.losses.HAL()
    assert hal(images, texts, weights=weights) != hal(images, texts)
    decl = vp.losses.DECL()
    assert decl(images, texts, targets=torch.linspace(0, 1, 8).double()) != decl(images, texts)
    later = vp.losses.MAX(curriculum=2.0)
    assert later(images, texts, passed=2.0) == vp.losses.MAX()(images, texts) != later(images, texts)


HAL = partial(vp.losses.HAL)
BAD = {
    "option": (lambda: vp.losses.HAL(gama=3), "loss hal: gama: unknown key"),
    "shapes": (lambda: HAL()(PAIRS[0], PAIRS[1, :3]), r"texts: expected .* \(8, 5\), got \(3, 5\)"),
    "owners": (lambda: HAL()(*PAIRS, [1, 2]), r"owners has shape \(2,\) .* expected \(8\) integers"),
    "weights": (lambda: HAL()(*PAIRS, weights=PAIRS[0]), r"weights: expected .* \(8, 8\), got \(8, 5\)"),
    "vectors": (lambda: vp.losses.Structure().from_scores(PAIRS[0] @ PAIRS[1].T), "structure needs the vectors"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named_in_one_line(name):
    refused(*BAD[name])


@pytest.mark.parametrize("name", CLASSES)
def test_half_precision_is_computed_in_float32_under_autocast_too(name):
    module, sides = CLASSES[name](), PAIRS.float().requires_grad_()
    expected = module(*sides.half().float())
    with torch.autocast("cpu", torch.bfloat16):
        value = module(*sides.half())
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)
    (gradient,) = torch.autograd.grad(module(*sides.half()), sides)
    assert gradient.isfinite().all()
