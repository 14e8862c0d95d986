import json
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import losses as naive
from tests.toy_project import PARAMS, load_params, write_prepared
from tests.train.killed import Killed
from tests.train.losses.contract import check_contract, check_masked_cells, some_batch, some_scores
from vse_pipe.artifacts import model_files
from vse_pipe.embed.stage import embed
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import loop, optimise
from vse_pipe.train.batch import Scored
from vse_pipe.train.model import build
from vse_pipe.train.optimise import optimizer_for
from vse_pipe.train.restore import load
from vse_pipe.train.stage import train

sigmoid = LOSSES.load("sigmoid")
SCALE, BIAS = "loss.log_scale", "loss.bias"


def _loss(batch, params):
    return sigmoid.loss(batch, params, sigmoid.network(params).double())


member = SimpleNamespace(Params=sigmoid.Params, loss=_loss)


def test_contract():
    check_contract(member)
    check_masked_cells(member)


@settings(deadline=None)
@given(
    pairs=st.integers(2, 8),
    seed=st.integers(0, 50),
    scale=st.floats(0.1, 50),
    bias=st.floats(-20, 5),
    owners=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    mask=st.booleans(),
)
def test_equals_plain_loops(pairs, seed, scale, bias, owners, mask):
    batch = some_batch(pairs, seed, torch.tensor(owners[:pairs]), mask)
    ours = _loss(batch, sigmoid.Params(scale=scale, bias=bias)).per_pair
    expected = naive.sigmoid(batch.scores.tolist(), scale, bias, batch.same.tolist())
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6)


def test_gradient_is_the_slope_of_scores_scale_and_bias():
    logits = sigmoid.network(sigmoid.Params(scale=3.0, bias=-0.4)).double()

    def share(scores, *_):
        return sigmoid.loss(Scored.from_scores(scores), sigmoid.Params(), logits).per_pair

    # gradcheck moves the numbers of its inputs where they lie: those of ``logits`` too.
    assert torch.autograd.gradcheck(share, (some_scores(5, 2).requires_grad_(), *logits.parameters()))


def test_a_large_scale_overflows_nothing():
    scores = some_scores().float().requires_grad_()
    total = _loss(Scored.from_scores(scores), sigmoid.Params(scale=1e4, bias=-1e4)).total()
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(scores.grad).all()


def _project(root, monkeypatch, options=None, **settings):
    monkeypatch.chdir(root)
    run = {**PARAMS["runs"]["sum"], "loss": "sigmoid", "options": {"loss": options or {}}}
    params = load_params(root, runs={"sum": run}, train={**PARAMS["train"], **settings})
    if not paths.prepared("toy").exists():
        write_prepared()
        inject(params, "clean")
        extract_texts(params, "words")
    return params


@pytest.mark.acceptance
def test_scale_and_bias_are_trained_kept_and_told_and_a_killed_run_ends_bit_equal(tmp_path, monkeypatch):
    params = _project(tmp_path, monkeypatch, chunk=3, epochs=2)
    train(params, "sum", "cpu")
    files = model_files.read(paths.trained("sum"))
    assert files.weights[SCALE].item() != pytest.approx(math.log(10), abs=1e-3)
    assert files.weights[BIAS].item() != pytest.approx(-10, abs=1e-3)
    config = json.loads((paths.trained("sum") / model_files.CONFIG).read_text())
    assert config["loss"]["learned"] == {key[5:]: files.weights[key].item() for key in (SCALE, BIAS)}

    (paths.trained("sum")).rename(tmp_path / "whole")
    real, steps = optimise.step, iter(range(10**6))

    def step(*arguments):
        if next(steps) == 9:
            raise Killed
        return real(*arguments)

    monkeypatch.setattr(loop, "step", step)
    with pytest.raises(Killed):
        train(params, "sum", "cpu")
    monkeypatch.setattr(loop, "step", real)
    train(params, "sum", "cpu")
    assert model_files.read(paths.trained("sum")).digest == files.digest

    embed(params, "sum", "cpu")
    model, _ = load(paths.trained("sum"))
    assert model.loss is None, "what is evaluated has no part of it"


def test_a_rate_of_its_own_moves_them_alone(tmp_path, monkeypatch):
    found = {}
    for lr in (None, 0.3):
        params = _project(tmp_path, monkeypatch, {"lr": lr}, epochs=1)
        train(params, "sum", "cpu")
        found[lr] = abs(model_files.read(paths.trained("sum")).weights[BIAS].item() + 10)
    assert found[0.3] > 10 * found[None] > 0


def test_losses_that_learn_nothing_add_nothing_to_a_model(tmp_path, monkeypatch):
    node = _project(tmp_path, monkeypatch).runs["sum"]
    given = node.image, node.text, node.similarity, (6,), 12, 8, 0
    names = set(build(*given).state_dict())
    assert set(build(*given, loss=node.loss).state_dict()) - names == {SCALE, BIAS}
    assert len(optimizer_for(build(*given, loss=node.loss), node.train).param_groups) == 1
