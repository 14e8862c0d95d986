"""The linear layer on regions, against loops, and what it refuses."""

import math

import pytest
import torch

from tests.naive import training as naive
from tests.train.encoders.contract import check_draws, check_gradients, weights_of
from vse_pipe.core.errors import InputError
from vse_pipe.train.encoders.image.options import RegionsOptions as Params
from vse_pipe.train.encoders.image.regions import build


def _encoder(**options):
    encoder = build(Params(**options), (3, 6), 4, torch.Generator().manual_seed(0))
    torch.nn.init.normal_(encoder.fc.bias, generator=torch.Generator().manual_seed(7))
    return encoder


def _features(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("plain", [False, True])
def test_every_region_as_the_loop_has_it(plain):
    encoder, features = _encoder(no_imgnorm=plain), _features(2, 3, 6)
    weights = weights_of(encoder)
    expected = [naive.regions(weights, image, normalised=not plain) for image in features.tolist()]
    torch.testing.assert_close(encoder(features), torch.tensor(expected))


def test_the_eps_is_added_to_the_length():
    encoder = build(Params(), (1, 2), 1, torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        encoder.fc.weight.copy_(torch.tensor([[1e-8, 0.0]]))
    assert encoder(torch.tensor([[[1.0, 0.0]]]).double()).item() == pytest.approx(0.5)


def test_a_zero_region_gives_a_zero_vector_not_nan():
    encoder = build(Params(), (2, 6), 4, torch.Generator().manual_seed(0))
    assert encoder(torch.zeros(1, 2, 6)).tolist() == [[[0.0] * 4] * 2]


def test_initial_weights_fill_the_stated_range():
    big = build(Params(), (36, 300), 200, torch.Generator().manual_seed(5))
    bound = math.sqrt(6 / 500)
    assert 0.99 * bound < big.fc.weight.abs().max() <= bound
    assert not big.fc.bias.any()


@pytest.mark.parametrize("shape", [(2048,), (2, 3, 4)])
def test_features_of_another_form_are_refused(shape):
    with pytest.raises(InputError, match=r"'regions' needs features \(regions, dim\) of an image"):
        build(Params(), shape, 4, torch.Generator())


def test_features_of_another_width_are_refused():
    with pytest.raises(InputError, match=r"built for \(regions, 6\) features of an image, got shape \(2, 3, 7\)"):
        _encoder()(torch.zeros(2, 3, 7))


@pytest.mark.parametrize("options", [{}, {"no_imgnorm": True}])
def test_gradients_reach_every_weight(options):
    encoder = _encoder(**options)
    check_gradients(encoder, encoder(_features(2, 3, 6)))


def test_weights_do_not_depend_on_the_generator_of_torch():
    check_draws(lambda rng: build(Params(), (3, 6), 4, rng))
