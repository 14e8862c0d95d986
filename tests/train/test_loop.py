"""A run that stops and goes on must end in the same bytes as one that never stopped."""

import json

import pytest
import torch
from safetensors.torch import save_file

from pipeline import paths
from pipeline.artifacts import history, model_files
from pipeline.errors import PipelineError
from pipeline.inject.stage import inject
from pipeline.train import checkpoint, loop, optimise
from pipeline.train.stage import train
from tests.project import PARAMS, load_params, write_prepared

OUTPUTS = [model_files.MODEL, model_files.VOCABULARY, model_files.CONFIG, history.NAME, str(checkpoint.FILE)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared()
    inject(load_params(tmp_path), "clean")
    return tmp_path


def _bytes() -> dict[str, bytes]:
    return {name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS}


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, no clean-up runs but what the stack holds."""


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


def test_other_parameters_start_from_the_beginning(project):
    train(load_params(project), "sum", "cpu")
    changed = load_params(project, train={**PARAMS["train"], "epochs": 2, "lr": 5e-3})
    train(changed, "sum", "cpu")
    rows = history.read(paths.trained("sum"))
    assert rows.epoch.tolist() == [1, 2]
    assert rows.lr.tolist() == [5e-3, 5e-3]


def test_a_damaged_checkpoint_is_said_and_training_starts_again(project, capsys):
    params = load_params(project)
    train(params, "sum", "cpu")
    whole = _bytes()
    state = paths.trained("sum") / checkpoint.FILE
    state.write_bytes(state.read_bytes()[:1000])
    train(params, "sum", "cpu")
    assert "damaged" in capsys.readouterr().err
    assert _bytes() == whole


def test_learning_curve_and_selection(project):
    train(load_params(project), "sum", "cpu")
    rows = history.read(paths.trained("sum"))
    assert rows.epoch.tolist() == [1, 2, 3, 4]
    assert rows.lr.round(6).tolist() == [0.01, 0.01, 0.001, 0.001]
    assert rows.loss.iloc[-1] < rows.loss.iloc[0]
    parts = [column for column in rows if column.startswith("val_") and column != "val_rsum"]
    assert len(parts) == 6
    assert (rows[parts].sum(axis=1) - rows.val_rsum).abs().max() < 1e-4
    best = json.loads((paths.trained("sum") / model_files.CONFIG).read_text())["best"]
    assert best["epoch"] == rows.val_rsum.idxmax() + 1
    assert best["val_rsum"] == rows.val_rsum.max()


def test_a_loss_that_is_not_finite_stops_before_any_weight_changes():
    model = torch.nn.Linear(2, 2)
    before = model.weight.detach().clone()
    optimizer = optimise.adam(model, 1e-3)

    class Terms:
        def total(self):
            return model.weight.sum() * float("nan")

    with pytest.raises(PipelineError, match="loss is nan"):
        optimise.step(lambda *a: a, optimizer, lambda s: Terms(), None, None, None, 1.0)
    assert torch.equal(model.weight, before)


def test_gradients_are_clipped_by_their_common_norm():
    model = torch.nn.Linear(3, 3, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = model.weight.detach().clone()

    class Terms:
        def total(self):
            return 100 * model.weight.sum()

    forward = torch.nn.Module()
    forward.register_module("inner", model)
    forward.forward = lambda *a: None
    optimise.step(forward, optimizer, lambda s: Terms(), None, None, None, 2.0)
    moved = (model.weight - before).norm()
    torch.testing.assert_close(moved, torch.tensor(2.0))


def test_a_state_of_another_fingerprint_is_not_loaded(tmp_path):
    folder = tmp_path / "run"
    (folder / "last").mkdir(parents=True)
    save_file(
        {"model/weight": torch.zeros(1)},
        folder / checkpoint.FILE,
        metadata={"progress": json.dumps({"fingerprint": "a"})},
    )
    assert checkpoint.fingerprint(folder) == "a"
    model = torch.nn.Linear(1, 1)
    progress = checkpoint.resume(folder, model, optimise.adam(model, 1.0), "b")
    assert progress.epoch == 0
