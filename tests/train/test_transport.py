"""Plans of partial transport against loops, and the costs that l2rm learns."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import training as naive
from tests.train.some import member, some_model, some_pairs, some_scheme
from vse_pipe.core.errors import InputError
from vse_pipe.project.registry import IMAGE_ENCODERS
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import transport
from vse_pipe.train.transport import CostNetwork, Costs, cosine_distance, partial_plan


@pytest.fixture(autouse=True)
def _many_steps(monkeypatch):
    monkeypatch.setattr(transport, "_LIMIT", 20_000)


def _cost(rows: int, columns: int | None = None, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(scale * rng.random((rows, columns or rows)))


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 9),
    seed=st.integers(0, 50),
    mass=st.sampled_from([0.05, 0.1, 0.5, 0.9]),
    reg=st.sampled_from([0.01, 0.07, 0.5]),
    mask=st.booleans(),
)
def test_the_plan_is_that_of_the_plain_loops_at_the_same_stop(n, seed, mass, reg, mask):
    cost = _cost(n, seed=seed)
    found = partial_plan(cost, mass, reg, mask)
    expected = naive.partial_plan(cost.tolist(), mass, reg, mask)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-8)


def test_nothing_moves_on_a_masked_diagonal_marginals_are_kept_and_no_gradient_passes():
    assert partial_plan(_cost(20), mass=1.0, regularisation=0.05, tolerance=1e-10).sum() == pytest.approx(1.0)
    plan = partial_plan(_cost(20), mass=0.4, regularisation=0.05, tolerance=1e-10).double()
    assert (plan.diagonal() == 0).all()
    assert (plan >= 0).all()
    assert all((plan.sum(dim=axis) <= 1 / 20 + 1e-7).all() for axis in (0, 1))
    assert plan.sum() == pytest.approx(0.4, abs=1e-6)
    plan = partial_plan(_cost(4).requires_grad_())
    assert (plan.dtype, plan.requires_grad) == (torch.float32, False)


def test_costs_far_beyond_the_range_of_float64_are_refused():
    with pytest.raises(InputError, match="raise it"):
        partial_plan(_cost(7, scale=1e4), 0.2, 0.01)


def _scores(rows: int, columns: int) -> torch.Tensor:
    return torch.rand(rows, columns, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_the_start_is_the_cosine_distance_that_of_fragments_is_of_their_means():
    images, texts = (torch.nn.functional.normalize(_scores(rows, 6), dim=1) for rows in (5, 7))
    torch.testing.assert_close(CostNetwork(7)(images @ texts.T), cosine_distance(3 * images, texts))
    assert cosine_distance(torch.eye(2), torch.tensor([[2.0, 0.0], [-1.0, 0.0]])).tolist() == [[0.0, 2.0], [1.0, 1.0]]
    regions, lengths = _scores(5 * 4, 6).view(5, 4, 6), [1, 3, 2]
    words = Words(_scores(6, 6) + 0.3, torch.tensor(lengths))
    found = cosine_distance(regions, words)
    assert found.shape == (5, 3)
    for image in range(5):
        first = 0
        for caption, length in enumerate(lengths):
            seen, read = regions[image].mean(dim=0), words.vectors[first : first + length].mean(dim=0)
            expected = 1 - torch.nn.functional.cosine_similarity(seen, read, dim=0)
            assert found[image, caption].item() == pytest.approx(expected.item(), abs=1e-6)
            first += length


def _costs(kind="learned", count=40, lr=1e-3, batch_size=8, image=None):
    pairs = some_pairs(count, each=2)
    model = some_model(pairs, image=image).train()
    setting = some_scheme(pairs, model=model, train={"batch_size": batch_size}).setting
    return Costs(setting, kind, lr, np.arange(30, 30 + min(batch_size, 10)))


def _halves(costs, matched=8, mismatched=8):
    pairs = costs.setting.pairs
    return pairs.batch(np.arange(matched)), pairs.batch(np.arange(20, 20 + mismatched))


def _learn(costs, epoch: int = 0, **halves) -> None:
    costs.learn(*_halves(costs, **halves), epoch, np.random.default_rng(epoch))


def test_one_step_is_that_of_adam_on_the_reconstructed_pairs():
    costs = _costs(batch_size=20)
    matched, mismatched = costs.setting.pairs.batch(np.arange(20)), _halves(costs)[1]
    images = costs.setting.pairs.batch(costs.queue).features.clone()
    before = costs.network.fc.weight.detach().clone()
    rng = np.random.default_rng(4)
    count = int(rng.integers(1, 3))
    chosen, places = rng.choice(20, count, replace=False), rng.choice(10, count, replace=False)
    costs.learn(matched, mismatched, 0, np.random.default_rng(4))
    images[places] = matched.features[chosen]
    model, weight = costs.setting.model.eval(), before.clone().requires_grad_()
    with torch.no_grad():
        scores = model.img(images) @ model.txt(*matched.texts).T
    cost = torch.nn.functional.linear(scores, weight, torch.ones(20)).relu()
    cost[places, chosen].sum().backward()
    torch.optim.Adam([weight], lr=1e-3).step()
    torch.testing.assert_close(costs.network.fc.weight.detach(), weight.detach(), rtol=0, atol=1e-6)
    assert not torch.equal(costs.network.fc.weight, before)


def test_the_model_takes_nothing_from_the_costs_which_go_on_where_they_were():
    costs = _costs(image=member(IMAGE_ENCODERS, "two_branch", hidden=7))
    model = costs.setting.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    _learn(costs)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())
    whole, first, second = _costs(), _costs(), _costs()
    for costs in (whole, first):
        _learn(costs)
    second.load_state(deepcopy(first.state()))
    for costs in (whole, second):
        costs.start(1.0)
        _learn(costs, 1)
    assert second.queue.tolist() == whole.queue.tolist()
    torch.testing.assert_close(second.state(), whole.state(), rtol=0, atol=0)
