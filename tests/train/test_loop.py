"""A run that stops and goes on must end in the same bytes as one that never stopped."""

import json
import shutil
from functools import partial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.toy_project import PARAMS, load_params
from tests.train.some import Killed, adam, check_resumes, files_of, ready, some_model, some_pairs, some_scheme
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import DeadRun, PipelineError
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import checkpoint, loop, optimise, stage
from vse_pipe.train import model as train_model
from vse_pipe.train.data import TrainTable
from vse_pipe.train.loop import KS, StepResult, Watch, validator
from vse_pipe.train.stage import train


def test_a_killed_run_goes_on_and_ends_bit_equal(project, monkeypatch):
    params = load_params(project)
    train(params, "sum", "cpu")
    whole = files_of("sum")
    shutil.rmtree(paths.trained("sum"))
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
    assert files_of("sum") == whole


def test_a_finished_run_is_left_as_it_is(project, monkeypatch):
    params = load_params(project)
    train(params, "sum", "cpu")
    before = files_of("sum")
    monkeypatch.setattr(loop, "step", lambda *arguments: pytest.fail("nothing was left to train"))
    train(params, "sum", "cpu")
    assert files_of("sum") == before


def test_a_finished_run_leaves_no_state_unless_it_is_kept(project, monkeypatch):
    train(load_params(project), "sum", "cpu")
    state, whole = paths.trained("sum") / checkpoint.STATE, files_of("sum")
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
    models, remaining = ({k: v for k, v in files.items() if "last/" not in k} for files in (whole, files_of("sum")))
    assert remaining == models


def test_a_run_that_keeps_no_state_goes_on_bit_equal_after_a_kill(project):
    without = load_params(project, train={**PARAMS["train"], "keep_state": False})
    check_resumes(without, "sum", 2)
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
    whole = files_of("sum")
    state = paths.trained("sum") / checkpoint.STATE
    state.write_bytes(state.read_bytes()[:1000])
    train(params, "sum", "cpu")
    assert "damaged" in capsys.readouterr().err
    assert files_of("sum") == whole


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
    check_resumes(params, "sum", 2)


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
    check_resumes(load_params(project, train=train_params), "sum", 1)


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


# Similarities of this run fall below 0 in its first epoch.
DEADLY: dict[str, Any] = {"loss": "hal", "options": {"loss": {"gamma": 30.0, "eps": 0.3, "variant": "paper"}}}


@pytest.fixture
def wide(tmp_path, monkeypatch):
    """A working directory with enough validation images for chance to be low."""
    monkeypatch.chdir(tmp_path)
    ready(load_params(tmp_path), train=120, val=100)
    return tmp_path


def _params(root, run: dict, **options: object):
    return load_params(root, runs={"sum": {**PARAMS["runs"]["sum"], **run}}, train={**PARAMS["train"], **options})


def test_a_dead_run_is_ended_after_the_epoch_in_which_it_died(wide, capsys):
    with pytest.raises(DeadRun) as error:
        train(_params(wide, DEADLY, lr=0.05), "sum", "cpu")
    assert error.value.exit_status == 1
    said = str(error.value)
    assert said.startswith("train sum, epoch 1: validation rsum ")
    for part in (
        "about that of chance (31.",
        "no gradient is left",
        "variant: extended",
        "gamma 60",
        "train.stop_when_dead: false",
    ):
        assert part in said
    assert not paths.trained("sum").exists(), "an earlier model would still be there"


def test_a_run_may_go_on_though_it_is_dead_and_says_so_once(wide, capsys):
    train(_params(wide, DEADLY, lr=0.05, stop_when_dead=False), "sum", "cpu")
    assert model_files.read_history(paths.trained("sum")).epoch.tolist() == [1, 2, 3, 4]
    warnings = [line for line in capsys.readouterr().err.splitlines() if "pulls no pair together" in line]
    assert len(warnings) == 2, "after the first epoch, and at the end"
    assert "train sum, epoch 1:" in warnings[0]
    train(_params(wide, DEADLY, lr=0.05), "sum", "cpu")
    assert "up to date" in capsys.readouterr().err, "the option decides no weight"


def test_the_extended_loss_learns_where_the_paper_dies(wide):
    extended = {"loss": "hal", "options": {"loss": {"gamma": 30.0, "eps": 0.3, "variant": "extended"}}}
    train(_params(wide, extended, lr=0.05), "sum", "cpu")
    assert model_files.read_history(paths.trained("sum")).val_rsum.iloc[-1] > 250


def _alike(build, *arguments):
    """A model that gives all images nearly one vector, and all captions another."""
    model = build(*arguments)
    with torch.no_grad():
        model.img.fc.weight *= 0.002
        model.img.fc.bias += 1
        model.txt.embed.weight *= 0.002
        for name, weight in model.txt.named_parameters():
            weight *= 3 if "bias" in name else 1
    return model


def test_the_plateau_of_max_is_said_and_left(wide, monkeypatch, capsys):
    monkeypatch.setattr(stage, "build", partial(_alike, stage.build))
    params = _params(wide, {"loss": "max"}, lr=3e-3, batch_size=48, epochs=16, lr_update=20)
    train(params, "sum", "cpu")
    curve = model_files.read_history(paths.trained("sum"))
    said = capsys.readouterr().err
    assert "train sum, epoch 2: validation rsum" in said
    assert said.count("still sits at its plateau of 19.2; training may leave it by itself") == 1
    assert "curriculum" in said
    assert curve.val_rsum.iloc[:2].max() < 47 < 85 < curve.val_rsum.max()


def test_a_run_that_goes_on_dies_where_it_would_have_died(wide):
    """The state is that of the epoch before."""
    late = _params(wide, DEADLY, lr=0.05)
    for _ in range(2):
        with pytest.raises(DeadRun, match="epoch 1"):
            train(late, "sum", "cpu")
        assert not (paths.trained("sum").with_name("sum.partial") / checkpoint.STATE).exists()
    train(_params(wide, DEADLY, lr=0.05, stop_when_dead=False), "sum", "cpu")
    whole = (paths.trained("sum") / model_files.MODEL).read_bytes()
    shutil.rmtree(paths.trained("sum"))
    train(_params(wide, DEADLY, lr=0.05, stop_when_dead=False), "sum", "cpu")
    assert (paths.trained("sum") / model_files.MODEL).read_bytes() == whole


def _steps(loss: float, norm: float, count: int = 40, pairs: int = 128, fall: float = 0.0) -> list[StepResult]:
    steps = [StepResult(loss * (1 - fall * number / count), norm, pairs) for number in range(count)]
    return [*steps, StepResult(loss / 3, norm, 40)]  # the short batch at the end of an epoch


def _watch(name: str, **options: object) -> Watch:
    """On 1,000 images with five captions each."""
    stuck = LOSSES.load(name).stuck if LOSSES.traits(name).stuck else None
    return Watch("run", name, 3.2, stuck and partial(stuck, params=LOSSES.options(name)(**options)))


# Gradient norms as measured: MAX on its plateau 0.3 to 60, HAL under relu 1e-14 to 1e-7.
CASES = {
    "HAL is dead": (_watch("hal", gamma=30, eps=0.3, variant="paper"), _steps(0.001, 1e-9), 3.5, "dead"),
    "HAL has died, its gradients are fading": (
        _watch("hal", gamma=30, eps=0.3, variant="paper"), _steps(0.001, 1e-4), 3.5, "said"),
    "HAL learns slowly": (_watch("hal"), _steps(-0.3, 0.1, fall=-0.3), 3.5, ""),
    "MAX is on its plateau": (_watch("max", margin=0.2), _steps(51.2, 0.3), 3.5, "said"),
    "MAX has all vectors alike, to the bit": (_watch("max", margin=0.2), _steps(51.2, 0.0), 0.0, "dead"),
    "MAX has no violation left": (_watch("max", margin=0.2), _steps(0.0, 0.0), 3.5, ""),
    "MAX is on its plateau and ranks well": (_watch("max", margin=0.2), _steps(51.2, 0.3), 80.0, ""),
    "SUM falls": (_watch("sum"), _steps(6000.0, 300.0, fall=0.2), 3.5, ""),
    "SUM stands still": (_watch("sum"), _steps(6000.0, 300.0), 3.5, "said"),
    "SUM has all vectors alike": (_watch("sum"), _steps(6000.0, 0.0), 0.0, "dead"),
    "SUM has no violation left": (_watch("sum"), _steps(0.0, 0.0, 5), 3.5, ""),
    "nothing is trained": (_watch("sum"), [], 3.5, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_dead_what_stands_still_and_what_learns(case, capsys):
    watch, steps, rsum, expected = CASES[case]
    watch.warned = 0
    if expected == "dead":
        with pytest.raises(DeadRun, match=r"^train run, epoch 7: .*no gradient is left .*; train\.stop_when_dead"):
            watch.after(7, steps, rsum)
        return
    watch.after(7, steps, rsum)
    said = capsys.readouterr().err
    assert bool(said) == (expected == "said")
    watch.after(8, steps, rsum)
    assert not capsys.readouterr().err, "it is said once"


CPU = torch.device("cpu")


def _table(pairs, val_texts=None) -> TrainTable:
    """Every pair validates, too."""
    images = np.unique(pairs.owners)
    rows = np.array([pairs.rows[np.flatnonzero(pairs.owners == image)[0]] for image in images])
    given = pairs.array, pairs.texts, pairs, pairs.places, pairs.owners, images, rows, np.arange(len(pairs))
    return TrainTable(*given, val_texts=val_texts)


def _recall(ranked: np.ndarray, correct: set[int], k: int) -> bool:
    """Ties count against a correct item."""
    best = max(ranked[one] for one in correct)
    return sum(ranked >= best) - sum(ranked[one] == best for one in correct) < k


@pytest.mark.parametrize("seed", range(4))
def test_texts_that_read_alike_are_ranked_once_with_all_their_images(seed):
    """As in plain loops over images and distinct texts; the caption of a text is its first."""
    pairs = some_pairs(40, each=2, seed=seed)
    numbers = np.random.default_rng(seed).integers(0, 15, 40)
    model = some_model(pairs, seed=seed)
    found = validator(_table(pairs, numbers), 20, CPU)([model])
    images, texts = np.unique(pairs.owners), np.unique(numbers)
    first = [np.flatnonzero(numbers == text)[0] for text in texts]
    rows = np.array([pairs.rows[np.flatnonzero(pairs.owners == image)[0]] for image in images])
    seen = train_model.images(model, pairs.array, rows, CPU)
    scores = (seen @ train_model.captions(model, pairs.texts, pairs.places[first], CPU).T).numpy()
    said = [{int(text) for text in numbers[pairs.owners == image]} for image in images]
    for k in KS:
        told = [_recall(row, {texts.tolist().index(t) for t in own}, k) for row, own in zip(scores, said, strict=True)]
        assert found[f"val_i2t_r{k}"] == pytest.approx(100 * np.mean(told))
        answered = [
            _recall(column, {place for place, own in enumerate(said) if text in own}, k)
            for column, text in zip(scores.T, texts.tolist(), strict=True)
        ]
        assert found[f"val_t2i_r{k}"] == pytest.approx(100 * np.mean(answered))


def test_where_all_texts_differ_it_is_the_validation_of_captions():
    pairs = some_pairs(40, each=2)
    model = some_model(pairs)
    assert validator(_table(pairs, np.arange(40)), 12, CPU)([model]) == validator(_table(pairs), 12, CPU)([model])
