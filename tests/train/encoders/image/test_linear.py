import math

import pytest
import torch

from tests.train.encoders.contract import check_draws, check_gradients
from vse_pipe.core.errors import InputError
from vse_pipe.train.encoders.image.linear import build
from vse_pipe.train.encoders.image.options import LinearOptions as Params


def _encoder(**options):
    return build(Params(**options), (6,), 4, torch.Generator().manual_seed(0))


def test_projects_and_normalises():
    encoder, features = _encoder(), torch.randn(3, 6)
    expected = features @ encoder.fc.weight.T
    torch.testing.assert_close(encoder(features), expected / expected.square().sum(1, keepdim=True).sqrt())


def test_options():
    features = torch.randn(5, 6)
    torch.testing.assert_close(_encoder(no_imgnorm=True)(features), features @ _encoder().fc.weight.T)
    torch.testing.assert_close(_encoder(use_abs=True)(features), _encoder()(features).abs())


def test_a_zero_feature_gives_a_zero_vector_not_nan():
    assert _encoder()(torch.zeros(1, 6)).tolist() == [[0.0] * 4]


def test_initial_weights_fill_the_stated_range_and_come_from_the_generator():
    big = build(Params(), (300,), 200, torch.Generator().manual_seed(5))
    bound = math.sqrt(6 / 500)
    assert 0.99 * bound < big.fc.weight.abs().max() <= bound
    assert not big.fc.bias.any()
    same = build(Params(), (300,), 200, torch.Generator().manual_seed(5))
    assert torch.equal(big.fc.weight, same.fc.weight)


def test_regions_are_refused():
    with pytest.raises(InputError, match="one vector per image"):
        build(Params(), (36, 2048), 4, torch.Generator())


def test_features_of_another_width_are_refused():
    with pytest.raises(InputError, match=r"'linear' was built for vectors of 6 numbers, got shape \(2, 7\)"):
        _encoder()(torch.zeros(2, 7))


@pytest.mark.parametrize("options", [{}, {"no_imgnorm": True}, {"use_abs": True}])
def test_gradients_reach_every_weight(options):
    encoder = _encoder(**options)
    check_gradients(encoder, encoder(torch.randn(3, 6, generator=torch.Generator().manual_seed(1))))


def test_weights_do_not_depend_on_the_generator_of_torch():
    check_draws(lambda rng: build(Params(), (6,), 4, rng))
