import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.naive import losses as naive
from tests.toy_project import PARAMS, load_params, write_prepared
from tests.train.losses.contract import OWNERS, check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.artifacts import model_files
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored
from vse_pipe.train.stage import train

member = LOSSES.load("infonce")


def test_contract():
    check_contract(member)
    check_masked_cells(member)


@settings(deadline=None)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    tau=st.floats(0.02, 2),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    mask=st.booleans(),
)
def test_equals_plain_loops(pairs, seed, tau, owners, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    ours = member.loss(batch, member.Params(tau=tau)).per_pair
    expected = naive.infonce(batch.scores.tolist(), tau, batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


def test_equal_similarities_cost_the_logarithm_of_the_batch_twice():
    total = member.loss(Scored.from_scores(torch.full((8, 8), 0.3)), member.Params()).total()
    assert total.item() == pytest.approx(2 * math.log(8), rel=1e-5)


def test_a_small_temperature_overflows_nothing():
    scores = some_scores().float().requires_grad_()
    total = member.loss(Scored.from_scores(scores), member.Params(tau=1e-3)).total()
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(scores.grad).all()


def test_a_constant_added_to_all_scores_changes_nothing():
    scores = some_scores()
    plain, moved = (member.loss(Scored.from_scores(s), member.Params()).per_pair for s in (scores, scores + 0.7))
    torch.testing.assert_close(moved, plain)


def test_one_image_with_all_captions_of_the_batch_costs_nothing():
    batch = some_batch(owners=torch.zeros(7, dtype=torch.int64), mask=True)
    assert member.loss(batch, member.Params()).total().item() == 0
    assert member.loss(some_batch(owners=OWNERS), member.Params()).total().item() > 0


def test_gradient_is_the_slope():
    def share(scores):
        return member.loss(Scored.from_scores(scores), member.Params(tau=0.3)).per_pair

    assert torch.autograd.gradcheck(share, some_scores(5, 2).requires_grad_())


def test_a_learned_temperature_is_the_same_loss_at_its_value_with_a_slope_of_its_own():
    params = member.Params(tau=0.3, learn=True)
    learned = member.network(params).double()
    expected = member.loss(Scored.from_scores(some_scores(5, 2)), member.Params(tau=0.3)).per_pair
    found = member.loss(Scored.from_scores(some_scores(5, 2)), params, learned).per_pair
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)

    def share(scores, *_):
        return member.loss(Scored.from_scores(scores), params, learned).per_pair

    assert torch.autograd.gradcheck(share, (some_scores(5, 2).requires_grad_(), *learned.parameters()))


def test_it_stays_above_its_bound():
    with torch.no_grad():
        learned = member.network(member.Params(tau=1e-4, learn=True))
    found, lowest = (
        member.loss(Scored.from_scores(some_scores().float()), params, given).per_pair
        for params, given in ((member.Params(), learned), (member.Params(tau=0.01), None))
    )
    torch.testing.assert_close(found, lowest)


def test_without_learning_a_model_has_nothing_of_it():
    assert member.network(member.Params()) is None
    with pytest.raises(ValidationError, match="set learn: true"):
        member.Params(lr=0.1)


def test_the_temperature_is_trained_at_its_rate_and_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = {**PARAMS["runs"]["sum"], "loss": "infonce", "options": {"loss": {"learn": True, "lr": 0.2}}}
    params = load_params(tmp_path, runs={"sum": run})
    write_prepared()
    inject(params, "clean")
    extract_texts(params, "words")
    train(params, "sum", "cpu")
    files = model_files.read(paths.trained("sum"))
    found = files.weights["loss.log_tau"].item()
    assert abs(found - math.log(0.05)) > 0.2
    assert files.config["loss"]["learned"] == {"log_tau": found}
