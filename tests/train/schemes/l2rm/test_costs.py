import numpy as np
import pytest
import torch

from tests.train.some import member, some_model, some_pairs, some_scheme
from vse_pipe.project.registry import IMAGE_ENCODERS
from vse_pipe.train.engine.schedule import Moment
from vse_pipe.train.schemes.l2rm.costs import Costs

CPU = torch.device("cpu")


def _costs(kind="learned", count=40, lr=1e-3, batch_size=8, image=None):
    pairs = some_pairs(count, each=2)
    model = some_model(pairs, image=image).train()
    setting = some_scheme(pairs, model=model, train={"batch_size": batch_size}).setting
    return Costs(setting, kind, lr, np.arange(30, 30 + min(batch_size, 10)))


def _halves(costs, matched=8, mismatched=8):
    pairs = costs.setting.pairs
    return pairs.batch(np.arange(matched)), pairs.batch(np.arange(20, 20 + mismatched))


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
    model = costs.setting.model.eval()
    with torch.no_grad():
        scores = model.img(images) @ model.txt(*matched.texts).T
    weight = before.clone().requires_grad_()
    cost = torch.nn.functional.linear(scores, weight, torch.ones(20)).relu()
    sum(cost[place, one] for place, one in zip(places, chosen, strict=True)).backward()
    optimizer = torch.optim.Adam([weight], lr=1e-3)
    optimizer.step()
    torch.testing.assert_close(costs.network.fc.weight.detach(), weight.detach(), rtol=0, atol=1e-6)
    assert not torch.equal(costs.network.fc.weight, before)


def test_the_queue_is_the_mismatched_batch_before():
    costs = _costs()
    matched, mismatched = _halves(costs)
    costs.learn(matched, mismatched, 0, np.random.default_rng(0))
    assert costs.queue.tolist() == mismatched.pairs.tolist()
    other = costs.setting.pairs.batch(np.arange(10, 18))
    costs.learn(matched, other, 0, np.random.default_rng(1))
    assert costs.queue.tolist() == list(range(10, 18))


def test_the_model_takes_nothing_from_it_and_keeps_its_mode():
    costs = _costs(image=member(IMAGE_ENCODERS, "two_branch", hidden=7))
    model = costs.setting.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    costs.learn(*_halves(costs), 0, np.random.default_rng(0))
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_the_rate_decays_from_the_end_of_the_warm_up():
    costs = _costs()
    rates = []
    for epoch in (2, 16, 17, 32):
        costs.start(Moment(epoch, decays_from=2))
        rates.append(costs.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1e-3, 1e-3, 1e-4, 1e-5])


def test_its_state_goes_on_where_it_was():
    whole, first, second = _costs(), _costs(), _costs()
    for costs in (whole, first):
        costs.learn(*_halves(costs), 0, np.random.default_rng(0))
    second.load_state({name: tensor.clone() for name, tensor in first.state().items()})
    for costs in (whole, second):
        costs.start(Moment(1))
        costs.learn(*_halves(costs), 1, np.random.default_rng(1))
    assert second.queue.tolist() == whole.queue.tolist()
    for name, tensor in whole.state().items():
        assert torch.equal(tensor, second.state()[name]), name
    assert len(whole.state()) == 2 + 2 * 3 + 1


def test_smaller_batches_are_filled_up():
    costs = _costs()
    costs.learn(*_halves(costs, matched=3, mismatched=2), 0, np.random.default_rng(0))
    costs.learn(*_halves(costs, matched=5, mismatched=4), 0, np.random.default_rng(1))
    assert costs.of(torch.zeros(4, 4), torch.eye(4), torch.eye(4)).shape == (4, 4)


def test_the_cosine_distance_learns_nothing():
    costs = _costs("cosine")
    before = costs.queue.tolist()
    costs.learn(*_halves(costs), 0, np.random.default_rng(0))
    assert costs.queue.tolist() == before
    found = costs.of(torch.tensor([[0.25, -1.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.4, 1.0]]))
    assert torch.equal(costs.network.fc.weight, -torch.eye(8))


def test_a_batch_size_beyond_the_data_set_is_that_of_the_data_set():
    assert _costs(batch_size=2**40).captions == 40
