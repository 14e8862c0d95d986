"""A run that stops and goes on must end in the same bytes as one that never stopped."""

import json
import shutil
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.toy_project import PARAMS, load_params
from tests.train.killed import Killed, killed_after
from tests.train.some import adam, some_pairs, some_scheme
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import PipelineError
from vse_pipe.project import paths
from vse_pipe.train import checkpoint, loop, optimise
from vse_pipe.train.stage import train

OUTPUTS = [model_files.MODEL, model_files.VOCABULARY, model_files.CONFIG, model_files.HISTORY, str(checkpoint.STATE)]


def _bytes() -> dict[str, bytes]:
    return {name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS}


def test_a_killed_run_goes_on_and_ends_bit_equal(project, monkeypatch):
    params = load_params(project)
    train(params, "sum", "cpu")
    whole = _bytes()
    for path in sorted(paths.trained("sum").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()

    steps = iter(range(10**6))
    real = optimise.step

    def step(*arguments):
        if next(steps) == 15:
            raise Killed
        return real(*arguments)

    monkeypatch.setattr(loop, "step", step)
    with pytest.raises(Killed):
        train(params, "sum", "cpu")
    assert not (paths.trained("sum") / model_files.MODEL).exists(), "a killed run must not look finished"
    monkeypatch.setattr(loop, "step", real)
    train(params, "sum", "cpu")
    assert _bytes() == whole


def test_a_finished_run_is_left_as_it_is(project, monkeypatch):
    params = load_params(project)
    train(params, "sum", "cpu")
    before = _bytes()
    monkeypatch.setattr(loop, "step", lambda *arguments: pytest.fail("nothing was left to train"))
    train(params, "sum", "cpu")
    assert _bytes() == before


def test_a_finished_run_leaves_no_state_unless_it_is_kept(project, monkeypatch):
    train(load_params(project), "sum", "cpu")
    state, whole = paths.trained("sum") / checkpoint.STATE, _bytes()
    assert state.is_file()
    without = load_params(project, train={**PARAMS["train"], "keep_state": False})
    shutil.rmtree(paths.trained("sum"))
    with monkeypatch.context() as killed:  # after the last step, before anything is removed
        killed.setattr(checkpoint, "drop_state", Mock(side_effect=Killed))
        with pytest.raises(Killed):
            train(without, "sum", "cpu")
    assert state.read_bytes() == whole[str(checkpoint.STATE)]
    monkeypatch.setattr(loop, "step", lambda *arguments: pytest.fail("nothing was left to train"))
    for _ in range(2):
        train(without, "sum", "cpu")
        assert not state.exists()
    assert {name: data for name, data in whole.items() if name != str(checkpoint.STATE)} == {
        name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS[:-1]
    }


def test_a_run_that_keeps_no_state_goes_on_bit_equal_after_a_kill(project):
    without = load_params(project, train={**PARAMS["train"], "keep_state": False})
    train(without, "sum", "cpu")
    whole = {name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS[:-1]}
    shutil.rmtree(paths.trained("sum"))
    killed_after(2, without, "sum")
    train(without, "sum", "cpu")
    assert {name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS[:-1]} == whole
    assert not (paths.trained("sum") / checkpoint.STATE).exists()


def test_other_parameters_start_from_the_beginning(project):
    train(load_params(project), "sum", "cpu")
    changed = load_params(project, train={**PARAMS["train"], "epochs": 2, "lr": 5e-3})
    train(changed, "sum", "cpu")
    rows = model_files.read_history(paths.trained("sum"))
    assert rows.epoch.tolist() == [1, 2]
    assert rows.lr.tolist() == [5e-3, 5e-3]


def test_a_damaged_checkpoint_is_said_and_training_starts_again(project, capsys):
    params = load_params(project)
    train(params, "sum", "cpu")
    whole = _bytes()
    state = paths.trained("sum") / checkpoint.STATE
    state.write_bytes(state.read_bytes()[:1000])
    train(params, "sum", "cpu")
    assert "damaged" in capsys.readouterr().err
    assert _bytes() == whole


def test_learning_curve_and_selection(project):
    train(load_params(project), "sum", "cpu")
    rows = model_files.read_history(paths.trained("sum"))
    assert rows.epoch.tolist() == [1, 2, 3, 4]
    assert rows.lr.round(6).tolist() == [0.01, 0.01, 0.001, 0.001]
    assert rows.loss.iloc[-1] < rows.loss.iloc[0]
    parts = [column for column in rows if column.startswith("val_") and column != "val_rsum"]
    assert len(parts) == 6
    assert (rows[parts].sum(axis=1) - rows.val_rsum).abs().max() < 1e-4
    best = json.loads((paths.trained("sum") / model_files.CONFIG).read_text())["best"]
    assert best["epoch"] == rows.val_rsum.idxmax() + 1
    assert best["val_rsum"] == rows.val_rsum.max()


def _one_step(factor: float, clip: float, lr: float) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """One step of plain gradient descent on ``factor`` times the sum of all scores."""
    pairs = some_pairs()
    scheme = some_scheme(pairs, train={"grad_clip": clip})

    class Terms:
        def __init__(self, scores):
            self.scores = scores

        def total(self):
            return factor * self.scores.sum()

    scheme.terms = lambda images, texts, batch: Terms(images @ texts.T)
    model = scheme.setting.model
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimise.step(scheme, torch.optim.SGD(model.parameters(), lr=lr), pairs.batch(np.arange(8)))
    return model, before


def test_a_loss_that_is_not_finite_stops_before_any_weight_changes():
    pairs = some_pairs()
    scheme = some_scheme(pairs)
    model = scheme.setting.model
    with torch.no_grad():
        model.img.fc.bias[0] = float("inf")
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with pytest.raises(PipelineError, match="loss is nan"):
        optimise.step(scheme, adam(model, 1e-3), pairs.batch(np.arange(8)))
    assert all(torch.equal(before[name], weight) for name, weight in model.named_parameters())


def test_gradients_are_clipped_by_their_common_norm():
    model, before = _one_step(factor=1e4, clip=2.0, lr=1.0)
    moved = torch.cat([(weight - before[name]).flatten() for name, weight in model.named_parameters()]).norm()
    torch.testing.assert_close(moved, torch.tensor(2.0))
    model, before = _one_step(factor=1e-3, clip=2.0, lr=1.0)
    moved = torch.cat([(weight - before[name]).flatten() for name, weight in model.named_parameters()]).norm()
    assert 0 < moved < 0.1


def test_bfloat16_steps_stay_close_to_float32_and_weights_stay_float32():
    after = []
    for precision in ("float32", "bfloat16"):
        pairs = some_pairs()
        scheme = some_scheme(pairs, train={"precision": precision})
        model = scheme.setting.model
        images, texts = model.encode(pairs.batch(np.arange(8)), torch.device("cpu"), precision)
        assert images.dtype == texts.dtype == torch.float32
        for _ in range(3):
            optimise.step(scheme, torch.optim.SGD(model.parameters(), lr=0.1), pairs.batch(np.arange(0, 24, 3)))
        after.append(model.state_dict())
    assert all(weight.dtype == torch.float32 for weight in after[1].values())
    gaps = [(after[0][name] - after[1][name]).abs().max() for name in after[0]]
    assert 0 < max(gaps) < 0.03


def test_a_state_of_another_fingerprint_is_not_loaded(tmp_path):
    folder = tmp_path / "run"
    other = torch.nn.Linear(2, 2)
    checkpoint.save(folder, other, adam(other, 1.0), checkpoint.Progress(epoch=3), "a")
    assert checkpoint.fingerprint(folder) == "a"
    model = torch.nn.Linear(1, 1)
    progress = checkpoint.resume(folder, model, adam(model, 1.0), "b")
    assert progress.epoch == 0


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "run",
    [
        {"loss": "hal", "scheme": "memory_bank", "options": {"scheme": {"share": 0.4}, "text": {"dropout": 0.3}}},
        {"loss": "structure", "sampler": "captions", "options": {"sampler": {"extra_positives": 1}}},
        {"loss": "max", "sampler": "images", "train": {"chunk": 3, "mask_same_image": True}},
        {"loss": "sum", "similarity": "order", "options": {"text": {"use_abs": True}, "image": {"use_abs": True}}},
    ],
    ids=lambda run: "-".join(str(value) for value in run.values() if isinstance(value, str)),
)
def test_every_kind_of_run_goes_on_bit_equal_after_a_kill(project, monkeypatch, run):
    params = load_params(project, runs={"sum": {**PARAMS["runs"]["sum"], **run}})
    train(params, "sum", "cpu")
    whole = _bytes()
    for path in sorted(paths.trained("sum").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    killed_after(2, params, "sum")
    train(params, "sum", "cpu")
    assert _bytes() == whole


def test_sgd_moves_by_momentum_and_weight_decay():
    """Two steps against the rule written out: v = 0.9 v + g + decay w, w = w - lr v."""
    pairs = some_pairs()
    params = {"optimiser": "sgd", "momentum": 0.9, "weight_decay": 0.01, "lr": 0.1, "grad_clip": 1e9}
    scheme = some_scheme(pairs, train=params)
    model = scheme.setting.model
    optimizer = optimise.optimizer_for(model, scheme.setting.train)
    bias = model.img.fc.bias
    velocity, expected = torch.zeros_like(bias), bias.detach().clone()
    for _ in range(2):
        optimise.step(scheme, optimizer, pairs.batch(np.arange(0, 24, 3)))
        velocity = 0.9 * velocity + bias.grad + 0.01 * expected
        expected = expected - 0.1 * velocity
        torch.testing.assert_close(bias.detach(), expected)


@pytest.mark.acceptance
def test_a_run_under_sgd_goes_on_bit_equal(project, monkeypatch):
    train_params = {**PARAMS["train"], "optimiser": "sgd", "lr": 0.1}
    params = load_params(project, train=train_params)
    train(params, "sum", "cpu")
    whole = _bytes()
    shutil.rmtree(paths.trained("sum"))
    killed_after(1, params, "sum")
    train(params, "sum", "cpu")
    assert _bytes() == whole


def test_clipping_is_that_of_torch():
    for limit in (0.5, 100.0):
        ours, theirs = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
        for weight, twin in zip(ours.parameters(), theirs.parameters(), strict=True):
            weight.grad = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
            twin.grad = weight.grad.clone()
        optimise.clip(ours, limit)
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), limit)
        for weight, twin in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(weight.grad, twin.grad)


def test_a_gradient_that_is_not_finite_stops_before_any_weight_changes():
    model = torch.nn.Linear(2, 2)
    model.weight.grad = torch.full((2, 2), float("inf"))
    with pytest.raises(PipelineError, match="norm of the gradients is inf"):
        optimise.clip(model, 2.0)
