"""What holds for both branches; the members' test files call these with their own ``build``."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.naive import training as naive
from tests.train.encoders.contract import check_draws, check_gradients, weights_of
from vse_pipe.core.errors import InputError

BATCH_NORMS = ("last", "first", "none")
HIDDEN = (5, [5], [6, 3])
IN, OUT = 7, 4
# A bias right before batch normalisation is subtracted again.
SUBTRACTED = {"last": ("fc3.bias",), "first": ("fc1.0.bias", "fc2.0.bias"), "none": ()}

Make = Callable[..., nn.Module]


def rows(count: int = 6) -> torch.Tensor:
    return torch.randn(count, IN, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def check_loops(make: Make, batch_norm: str, hidden) -> None:
    """Training without dropout, then evaluation with the statistics that training left."""
    layers = 2 if isinstance(hidden, int) else len(hidden) + 1
    branch = make(hidden=hidden, batch_norm=batch_norm, dropout=0.0).double()
    for training in (True, False):
        branch.train(training)
        weights = weights_of(branch)
        ours = branch(rows()).tolist()
        expected = naive.two_branch(weights, rows().tolist(), layers, batch_norm, training)
        for row, wanted in zip(ours, expected, strict=True):
            assert row == pytest.approx(wanted, abs=1e-9)


def check_running_statistics(make: Make) -> None:
    """Momentum 0.1: a tenth of the way from (0, 1) to the batch's mean and unbiased variance."""
    branch = make(hidden=5, batch_norm="first").double().train()
    before = branch.fc1[0](rows())
    branch(rows())
    torch.testing.assert_close(branch.fc1[1].running_mean, 0.1 * before.mean(dim=0))
    torch.testing.assert_close(branch.fc1[1].running_var, 0.9 + 0.1 * before.var(dim=0))


def check_linear(make: Make) -> None:
    """One layer straight into unit length, whatever the options of the layers that are left out."""
    branch = make(nonlinear=False, hidden=[6, 3], batch_norm="last").double().train()
    assert list(branch.state_dict()) == ["fc1.weight", "fc1.bias"]
    plain = rows() @ branch.fc1.weight.T + branch.fc1.bias
    torch.testing.assert_close(branch(rows()), plain / plain.norm(dim=1, keepdim=True))
    assert branch(rows(1)).shape == (1, OUT)


def check_names(make: Make) -> None:
    """The authors' names of the weights where the layout is theirs."""
    assert [n for n in make(batch_norm="first").state_dict() if n.endswith("weight")] == [
        "fc1.0.weight",
        "fc1.1.weight",
        "fc2.weight",
    ]
    assert "bn.running_mean" in make(batch_norm="last").state_dict()
    assert set(make(batch_norm="none").state_dict()) == {f"fc{i}.{w}" for i in ("1.0", "2") for w in ("weight", "bias")}


def check_dropout(make: Make) -> None:
    """Half of what ReLU gives is gone in training, from torch's own generator; nothing in evaluation."""
    branch = make(hidden=400, batch_norm="none").double()
    seen = []
    branch.fc2.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    branch.train()(rows())
    branch.eval()(rows())
    alive = seen[1] > 0
    assert 0.45 < (seen[0][alive] == 0).double().mean() < 0.55
    kept = alive & (seen[0] != 0)
    torch.testing.assert_close(seen[0][kept], 2 * seen[1][kept])


def check_weights(make_with: Callable[[torch.Generator], nn.Module]) -> None:
    check_draws(make_with)
    for name, values in make_with(torch.Generator().manual_seed(1)).state_dict().items():
        if ".0." in name or name.startswith("fc2"):
            inputs = IN if name.startswith("fc1") else 2048
            least = 0.95 if values.numel() > 1000 else 0.2
            assert least / math.sqrt(inputs) < values.abs().max() <= 1 / math.sqrt(inputs), name


def check_rest(make: Make) -> None:
    """Unit length, use_abs, gradients, and the refusals."""
    for batch_norm in BATCH_NORMS:
        branch = make(hidden=[6, 5], batch_norm=batch_norm, dropout=0.0).double().train()
        vectors = branch(rows())
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(6, dtype=torch.float64))
        check_gradients(branch, vectors, without=SUBTRACTED[batch_norm])
    plain, absolute = make(hidden=5).double().eval(), make(hidden=5, use_abs=True).double().eval()
    assert torch.equal(absolute(rows()), plain(rows()).abs())
    with pytest.raises(InputError, match=r"'two_branch' was built for vectors of 7 numbers, got shape \(6, 8\)"):
        plain(torch.zeros(6, 8, dtype=torch.float64))


def check_lone_row(make: Make) -> None:
    for batch_norm in ("last", "first"):
        branch = make(hidden=5, batch_norm=batch_norm).double()
        with pytest.raises(InputError, match=r"at least 2 rows in training, got 1; change train\.batch_size"):
            branch.train()(rows(1))
        assert branch.eval()(rows(1)).shape == (1, OUT)
    assert make(hidden=5, batch_norm="none").double().train()(rows(1)).shape == (1, OUT)


def check_entries_left_out(make: Make) -> None:
    """In training alone, the vector's length kept."""
    branch = make(nonlinear=False, drop=0.5).double()
    seen = []
    branch.fc1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    branch.train()(rows(200))
    branch.eval()(rows(200))
    assert torch.equal(seen[1], rows(200))
    assert 0.4 < (seen[0] == 0).double().mean() < 0.6
    torch.testing.assert_close(seen[0].norm(dim=1), rows(200).norm(dim=1))
