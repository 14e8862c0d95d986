"""Encoders of one vector an image or a caption against loops, both sides alike: identity, linear, residual, two_branch."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from tests.naive import training as naive
from tests.train.encoders.contract import SIDES, build, weights_of
from vse_pipe.core.errors import InputError

IN, OUT = 7, 4


def _rows(count: int = 6) -> torch.Tensor:
    return torch.randn(count, IN, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _make(side: str, name: str, **options) -> nn.Module:
    return build(side, name, IN, OUT, **options).double()


@pytest.fixture(params=SIDES)
def side(request) -> str:
    return request.param


@pytest.fixture
def two_branch(side) -> Callable[..., nn.Module]:
    return partial(_make, side, "two_branch")


def _trained_and_evaluated(encoder: nn.Module, layer: nn.Module, count: int = 6) -> list[torch.Tensor]:
    """What a layer is given in training and in evaluation."""
    inputs: list[torch.Tensor] = []
    layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    torch.manual_seed(0)
    encoder.train()(_rows(count))
    encoder.eval()(_rows(count))
    return inputs


@pytest.mark.parametrize(
    ("name", "alone", "layer"),
    [("residual", {"hidden": 5, "dropout": 0.0}, "fc"), ("two_branch", {"nonlinear": False}, "fc1")],
)
def test_entries_are_left_out_in_training_only_and_the_length_stays(side, name, alone, layer):
    encoder = _make(side, name, drop=0.5, **alone)
    thin, whole = _trained_and_evaluated(encoder, encoder.get_submodule(layer), 200)
    assert torch.equal(whole, _rows(200))
    assert 0.4 < (thin == 0).double().mean() < 0.6
    torch.testing.assert_close(thin.norm(dim=1), whole.norm(dim=1))


@pytest.mark.parametrize(
    ("name", "options", "layer"),
    [("residual", {"dropout": 0.5}, "mlp.3"), ("two_branch", {"batch_norm": "none"}, "fc2")],
)
def test_dropout_takes_half_of_the_numbers_after_relu_in_training_only(side, name, options, layer):
    encoder = _make(side, name, hidden=400, **options)
    thin, whole = _trained_and_evaluated(encoder, encoder.get_submodule(layer))
    alive = whole > 0
    assert 0.45 < (thin[alive] == 0).double().mean() < 0.55
    remaining = alive & (thin != 0)
    torch.testing.assert_close(thin[remaining], 2 * whole[remaining])
    torch.testing.assert_close(encoder(_rows())[:1], encoder(_rows()[:1]))


# Identity and linear.
def test_identity_is_the_input_at_unit_length(side):
    encoder = build(side, "identity", 3, 3)
    rows = torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 2.0, 2.0]])
    expected = [naive.unit([3.0, 4.0, 0.0]), [0.0, 0.0, 0.0], naive.unit([-1.0, 2.0, 2.0])]
    torch.testing.assert_close(encoder(rows), torch.tensor(expected))
    assert encoder.state_dict() == {}
    width = r"has 3 numbers, the run's vectors have 4.*train.embed_size"
    with pytest.raises(InputError, match=width):
        build(side, "identity", 3, 4)


def test_linear_projects_and_normalises():
    linear = partial(_make, "image", "linear")
    encoder, projected = linear(), _rows() @ linear().fc.weight.T
    torch.testing.assert_close(encoder(_rows()), projected / projected.square().sum(1, keepdim=True).sqrt())
    torch.testing.assert_close(linear(no_imgnorm=True)(_rows()), projected)
    assert encoder(torch.zeros(1, IN).double()).tolist() == [[0.0] * OUT], "not NaN"


# The residual head.
def test_residual_equals_the_loops(side):
    head = _make(side, "residual", hidden=5, dropout=0.0)
    for row, vector in zip(_rows().tolist(), head(_rows()).tolist(), strict=True):
        assert vector == pytest.approx(naive.residual(weights_of(head), row), abs=1e-9)


# The two-branch network.
@pytest.mark.parametrize("batch_norm", ["last", "first", "none"])
def test_two_branch_equals_the_loops(two_branch, batch_norm):
    """Training without dropout, then evaluation with the statistics of the training."""
    branch = two_branch(hidden=5, batch_norm=batch_norm, dropout=0.0)
    for training in (True, False):
        weights, vectors = weights_of(branch), branch.train(training)(_rows())
        expected = naive.two_branch(weights, _rows().tolist(), batch_norm, training)
        torch.testing.assert_close(vectors, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)


def test_running_statistics_the_linear_rows_and_names_are_those_of_the_authors(two_branch):
    """Momentum 0.1: a tenth of the way from (0, 1) to the batch's mean and unbiased variance."""
    branch = two_branch(hidden=5, batch_norm="first").train()
    before = branch.fc1[0](_rows())
    branch(_rows())
    torch.testing.assert_close(branch.fc1[1].running_mean, 0.1 * before.mean(dim=0))
    torch.testing.assert_close(branch.fc1[1].running_var, 0.9 + 0.1 * before.var(dim=0))
    # One layer, then unit length, whatever the options of the other layers.
    branch = two_branch(nonlinear=False, hidden=6, batch_norm="last").train()
    assert list(branch.state_dict()) == ["fc1.weight", "fc1.bias"]
    plain = _rows() @ branch.fc1.weight.T + branch.fc1.bias
    torch.testing.assert_close(branch(_rows()), plain / plain.norm(dim=1, keepdim=True))
    assert branch(_rows(1)).shape == (1, OUT)
