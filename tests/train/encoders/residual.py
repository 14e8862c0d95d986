"""What holds for the residual heads of both sides; the members' test files call these with their own ``build``."""

import pytest
import torch

from tests.naive import training as naive
from tests.train.encoders.contract import check_draws, check_gradients, weights_of
from vse_pipe.core.errors import InputError

IN, OUT = 7, 4


def rows(count: int = 6) -> torch.Tensor:
    return torch.randn(count, IN, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def check_loops(make) -> None:
    head = make(hidden=5, dropout=0.0).double()
    for row, found in zip(rows().tolist(), head(rows()).tolist(), strict=True):
        assert found == pytest.approx(naive.residual(weights_of(head), row), abs=1e-9)
    assert torch.equal(make(hidden=5, use_abs=True).double().eval()(rows()), head(rows()).abs())


def check_dropout(make) -> None:
    """Half of what ReLU gives is gone in training, and rows stay independent of each other; nothing in evaluation."""
    head = make(hidden=400, dropout=0.5).double()
    seen = []
    head.mlp[3].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    head.train()(rows())
    head.eval()(rows())
    alive = seen[1] > 0
    assert 0.45 < (seen[0][alive] == 0).double().mean() < 0.55
    torch.testing.assert_close(head(rows())[:1], head(rows()[:1]))


def check_entries_left_out(make) -> None:
    """In training alone, the vector's length kept."""
    head = make(hidden=5, dropout=0.0, drop=0.5).double()
    seen = []
    head.fc.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    head.train()(rows(200))
    head.eval()(rows(200))
    assert torch.equal(seen[1], rows(200))
    assert 0.4 < (seen[0] == 0).double().mean() < 0.6
    torch.testing.assert_close(seen[0].norm(dim=1), rows(200).norm(dim=1))


def check_rest(make, make_with) -> None:
    head = make(hidden=5, dropout=0.0).double().train()
    vectors = head(rows())
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(6, dtype=torch.float64))
    check_gradients(head, vectors)
    check_draws(make_with)
    with pytest.raises(InputError, match=r"'residual' was built for vectors of 7 numbers, got shape \(6, 8\)"):
        head(torch.zeros(6, 8, dtype=torch.float64))
