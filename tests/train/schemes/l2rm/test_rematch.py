import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import transport as naive
from vse_pipe.train.schemes.l2rm.rematch import rematch_loss

KINDS = ["symmetric_kl", "kl", "js", "infonce"]


def _case(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    plan = rng.random((n, n)) * (rng.random((n, n)) < 0.5) / n
    return torch.from_numpy(rng.uniform(-1, 1, (n, n))), torch.from_numpy(plan)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(n=st.integers(2, 7), seed=st.integers(0, 100), tau=st.sampled_from([0.05, 0.5]))
def test_the_loss_is_that_of_the_plain_loops(kind, n, seed, tau):
    scores, plan = _case(n, seed)
    expected = naive.rematch(scores.tolist(), plan.tolist(), tau, kind)
    assert rematch_loss(scores, plan, tau, kind).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_differences(kind):
    scores, plan = _case(4, 1)
    torch.autograd.gradcheck(lambda s: rematch_loss(s, plan, 0.3, kind), scores.requires_grad_())


@pytest.mark.parametrize("kind", ["symmetric_kl", "kl"])
def test_a_softmax_equal_to_the_plan_costs_nothing(kind):
    plan = torch.full((5, 5), 0.02)
    assert rematch_loss(torch.full((5, 5), 0.3), plan, 0.05, kind).item() == pytest.approx(0, abs=1e-6)
    other = plan.clone()
    other[0, 1] = 0.2
    assert rematch_loss(torch.full((5, 5), 0.3), other, 0.05, kind) > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_similarities_of_any_size_stay_finite(kind):
    scores, plan = _case(4, 0)
    found = (1000 * scores.float()).requires_grad_()
    loss = rematch_loss(found, plan.float(), 0.05, kind)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(found.grad).all()
