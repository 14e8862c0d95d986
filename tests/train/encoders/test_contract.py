"""What holds for every encoder without a network of its own: draws, gradients, lengths, absolute values, refused shapes."""

import math

import pytest
import torch

from tests.train.encoders.contract import build, check_draws, check_gradients
from tests.train.some import member
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train import model

IN, OUT, COUNT = 7, 4, 6
# A bias right before batch normalisation is subtracted again.
SUBTRACTED = {"last": ("fc2.bias",), "first": ("fc1.0.bias",), "none": ()}
NORMS = [{"hidden": 6, "batch_norm": norm, "dropout": 0.0} for norm in SUBTRACTED]
POOLINGS = [{"pooling": pooling} for pooling in ("gpo", "mean", "max")]
GRUS = [{"word_dim": 3, "projection": True, **options} for options in ({}, {"bidirectional": True}, *POOLINGS)]
CASES = [
    *(("image", "linear", options) for options in ({}, {"no_imgnorm": True})),
    ("image", "regions", {}),
    *((side, "residual", {"hidden": 5, "dropout": 0.0}) for side in ("image", "text")),
    *((side, "two_branch", norm) for side in ("image", "text") for norm in NORMS),
    *((side, "pooled", options) for side in ("image", "text") for options in POOLINGS),
    *(("text", "gru", options) for options in GRUS),
]
LENGTHS = torch.tensor([3, 1, 5, 2, 5, 4])


def _inputs(side: str, name: str) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(2)
    if name == "gru":
        return torch.randint(0, IN, (COUNT, 5), generator=generator), LENGTHS
    shape = (COUNT, 5, IN) if name in ("pooled", "regions") else (COUNT, IN)
    vectors = torch.randn(shape, generator=generator, dtype=torch.float64)
    return (vectors, LENGTHS) if name == "pooled" and side == "text" else (vectors,)


@pytest.mark.parametrize(("side", "name", "options"), CASES, ids=str)
def test_every_encoder(side, name, options):
    def made(rng=None, **more):
        return build(side, name, IN, OUT, rng, **{**options, **more})

    check_draws(made)
    encoder, inputs = made().double(), _inputs(side, name)
    vectors = encoder.train()(*inputs)
    check_gradients(encoder, vectors, without=SUBTRACTED.get(options.get("batch_norm", ""), ()))
    if not options.get("no_imgnorm"):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1], dtype=torch.float64))
    if name != "regions":
        plain, absolute = made().double().eval()(*inputs), made(use_abs=True).double().eval()(*inputs)
        assert torch.equal(absolute, plain.abs())
    if hasattr(encoder, "words"):
        encoder.zero_grad()
        unused = [key for key in encoder.state_dict() if key.startswith("gpo" if name == "pooled" else ("gpo", "fc"))]
        words = encoder.words(*inputs)
        assert words.shape == (COUNT, 5, OUT)
        words.sum().backward()
        assert {key for key, weight in encoder.named_parameters() if weight.grad is None} == set(unused)


@pytest.mark.parametrize(
    ("side", "name"), [("image", "linear"), ("image", "regions"), ("image", "pooled"), ("text", "residual")]
)
def test_first_weights_fill_their_range_and_biases_are_zero(side, name):
    layer, bound = build(side, name, 300, 200).fc, math.sqrt(6 / 500)
    assert 0.99 * bound < layer.weight.abs().max() <= bound
    assert not layer.bias.any()


@pytest.mark.parametrize("name", ["identity", "linear", "residual", "two_branch", "finetune", "pooled", "regions"])
def test_features_of_the_other_kind_are_refused(name):
    regions = name in ("pooled", "regions")
    members = member(IMAGE_ENCODERS, name), member(TEXT_ENCODERS, "gru"), member(SIMILARITIES, "cosine")
    needs = r"features \(regions, dim\)" if regions else "one vector per image"
    with pytest.raises(InputError, match=f"'{name}' needs {needs}"):
        model.build(*members, (IN,) if regions else (36, IN), 12, OUT, seed=0)
