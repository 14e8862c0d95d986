"""The layer on regions and their pooling, against loops; what is dropped; and what is refused."""

import pytest
import torch

from tests.naive import training as naive
from tests.train.encoders.contract import check_draws, check_gradients, weights_of
from vse_pipe.core.errors import InputError
from vse_pipe.train.encoders.image.options import PooledOptions as Params
from vse_pipe.train.encoders.image.pooled import build
from vse_pipe.train.heads import thinned

POOLINGS = ("gpo", "mean", "max")


def _encoder(**options):
    encoder = build(Params(**options), (5, 6), 4, torch.Generator().manual_seed(0))
    torch.nn.init.normal_(encoder.fc.bias, generator=torch.Generator().manual_seed(7))
    return encoder.double().eval()


def _features(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_one_vector_an_image_as_the_loop_has_it(pooling):
    encoder, features = _encoder(pooling=pooling), _features(3, 5, 6)
    weights = weights_of(encoder)
    expected = [naive.pooled(weights, image, pooling) for image in features.tolist()]
    torch.testing.assert_close(encoder(features), torch.tensor(expected, dtype=torch.float64))
    assert torch.equal(_encoder(pooling=pooling, use_abs=True)(features), encoder(features).abs())
    plain = _encoder(pooling=pooling, no_imgnorm=True)(features)
    torch.testing.assert_close(plain / plain.norm(dim=1, keepdim=True), encoder(features))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_regions_are_dropped_in_training_only(pooling):
    encoder, features = _encoder(pooling=pooling, drop=0.5), _features(4, 5, 6)
    whole = encoder(features)
    encoder.train()
    torch.manual_seed(3)
    kept = thinned(torch.ones(4, 5, dtype=torch.bool), 0.5)
    assert len(set(kept.sum(dim=1).tolist())) > 1
    torch.manual_seed(3)
    dropped = encoder(features)
    encoder.eval()
    for one in range(4):
        torch.testing.assert_close(dropped[one], encoder(features[one : one + 1, kept[one]])[0])
    assert torch.equal(encoder(features), whole)
    encoder.train()
    encoder.params = Params(pooling=pooling, drop=0.0)
    assert torch.equal(encoder(features), whole)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_order_of_regions_has_no_part(pooling):
    encoder, features = _encoder(pooling=pooling), _features(2, 5, 6)
    torch.testing.assert_close(encoder(features.flip(1)), encoder(features))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_gradients_reach_every_weight(pooling):
    encoder = _encoder(pooling=pooling).train()
    check_gradients(encoder, encoder(_features(8, 5, 6)))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_bfloat16_products_stay_near(pooling):
    encoder, features = _encoder(pooling=pooling).float(), _features(3, 5, 6).float()
    with torch.autocast("cpu", torch.bfloat16):
        rough = encoder(features)
    torch.testing.assert_close(rough.float(), encoder(features), rtol=0, atol=0.03)


def test_weights_do_not_depend_on_the_generator_of_torch():
    check_draws(lambda rng: build(Params(), (5, 6), 4, rng))


@pytest.mark.parametrize("shape", [(2048,), (2, 3, 4)])
def test_features_of_another_form_are_refused(shape):
    with pytest.raises(InputError, match=r"'pooled' needs features \(regions, dim\) of an image.*take image: linear"):
        build(Params(), shape, 4, torch.Generator())


def test_features_of_another_width_are_refused():
    with pytest.raises(InputError, match=r"built for \(regions, 6\) features of an image, got shape \(2, 3, 7\)"):
        _encoder()(torch.zeros(2, 3, 7).double())
