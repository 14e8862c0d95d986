"""A run that stops and goes on must end in the same bytes as one that never stopped."""

import json
import shutil
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.toy_project import PARAMS, load_params
from tests.train.some import (
    CPU,
    Killed,
    adam,
    check_resumes,
    files_of,
    history,
    killed_after,
    member,
    never,
    ready,
    some_model,
    some_pairs,
    some_run,
    some_scheme,
    state_file,
    weights_file,
)
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import DeadRun, PipelineError
from vse_pipe.core.files import replace_folder
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import checkpoint, optimise, stage
from vse_pipe.train import model as train_model
from vse_pipe.train.data import TrainTable
from vse_pipe.train.loop import KS, Validation, Watch
from vse_pipe.train.optimise import StepResult
from vse_pipe.train.stage import train

RUN = PARAMS["runs"]["sum"]


def test_a_killed_run_goes_on_and_ends_bit_equal_and_is_then_left_as_it_is(project, monkeypatch):
    check_resumes(load_params(project), "sum", step=15)
    before = files_of("sum")
    monkeypatch.setattr(optimise, "step", never)
    train(load_params(project), "sum", "cpu")
    assert files_of("sum") == before


def test_a_finished_run_leaves_no_state_also_where_the_call_was_killed_before_it_was_removed(
    trained_project, monkeypatch
):
    params, whole = load_params(trained_project), files_of("sum")
    shutil.rmtree(paths.trained("sum"))

    def replaced(*arguments):
        replace_folder(*arguments)
        raise Killed

    with monkeypatch.context() as killed:
        killed.setattr(checkpoint, "replace_folder", replaced)
        with pytest.raises(Killed):
            train(params, "sum", "cpu")
    assert any(paths.trained("sum").glob("last/*.pt"))
    monkeypatch.setattr(optimise, "step", never)
    train(params, "sum", "cpu")
    assert files_of("sum") == whole


def test_learning_curve_and_selection(trained_project):
    rows = history()
    assert rows.epoch.tolist() == [1, 2, 3, 4]
    assert rows.lr.round(6).tolist() == [0.01, 0.01, 0.001, 0.001]
    assert rows.loss.iloc[-1] < rows.loss.iloc[0]
    parts = [column for column in rows if column.startswith("val_") and column != "val_rsum"]
    assert len(parts) == 6
    assert (rows[parts].sum(axis=1) - rows.val_rsum).abs().max() < 1e-4
    best = json.loads((paths.trained("sum") / model_files.CONFIG).read_text())["best"]
    assert best == {"epoch": rows.val_rsum.idxmax() + 1, "val_rsum": rows.val_rsum.max()}


def _flipped(path: Path) -> None:
    """One bit of a weight is another."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [_flipped, lambda path: path.write_bytes(path.read_bytes()[:-99]), lambda path: torch.save([1], path)],
    ids=["bit", "end", "list"],
)
def test_a_training_with_a_damaged_state_starts_again(trained_project, capsys, damage):
    params, whole = load_params(trained_project), files_of("sum")
    shutil.rmtree(paths.trained("sum"))
    killed_after(2, params, "sum")
    damage(state_file())
    train(params, "sum", "cpu")
    assert "no state of a training" in capsys.readouterr().err
    assert files_of("sum") == whole


def test_a_state_of_other_options_is_removed_with_a_message(project, capsys):
    killed_after(2, load_params(project), "sum")
    train(load_params(project, train={"lr": 0.01}), "sum", "cpu")
    assert "sum.partial: removed, a state of other options" in capsys.readouterr().err


def test_a_loss_that_is_not_finite_stops_before_any_weight_changes():
    scheme = some_scheme(some_pairs())
    model = scheme.setting.model
    with torch.no_grad():
        model.img.fc.bias[0] = float("inf")
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    with pytest.raises(PipelineError, match="loss is nan"):
        optimise.step(scheme, adam(model, 1e-3), scheme.setting.pairs.batch(np.arange(8)))
    assert all(torch.equal(before[name], weight) for name, weight in model.named_parameters())


def test_bfloat16_steps_stay_close_to_float32_and_weights_stay_float32():
    after, pairs = [], some_pairs()
    for precision in ("float32", "bfloat16"):
        scheme = some_scheme(pairs, train={"precision": precision})
        model = scheme.setting.model
        images, texts = model.encode(pairs.batch(np.arange(8)), CPU, precision)
        assert images.dtype == texts.dtype == torch.float32
        for _ in range(3):
            optimise.step(scheme, torch.optim.SGD(model.parameters(), lr=0.1), pairs.batch(np.arange(0, 24, 3)))
        after.append(model.state_dict())
    assert all(weight.dtype == torch.float32 for weight in after[1].values())
    assert 0 < max((after[0][name] - after[1][name]).abs().max() for name in after[0]) < 0.03


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "run",
    [
        {"loss": "hal", "scheme": "memory_bank", "options": {"scheme": {"share": 0.4}, "text": {"dropout": 0.3}}},
        {"loss": "structure", "sampler": "captions", "options": {"sampler": {"extra_positives": 1}}},
        {"loss": "max", "sampler": "images", "train": {"chunk": 3, "mask_same_image": True}},
        {"loss": "sum", "similarity": "order", "options": {"text": {"use_abs": True}, "image": {"use_abs": True}}},
        {"train": {"optimiser": "sgd", "lr": 0.1}},
    ],
    ids=lambda run: "-".join(str(value) for value in run.values() if isinstance(value, str)) or "sgd",
)
def test_every_kind_of_run_goes_on_bit_equal_after_a_kill(project, run):
    check_resumes(load_params(project, runs={"sum": {**PARAMS["runs"]["sum"], **run}}), "sum", 2)


def test_sgd_moves_by_momentum_and_weight_decay():
    """Two steps against the rule written out: v = 0.9 v + g + decay w, w = w - lr v."""
    params = {"optimiser": "sgd", "momentum": 0.9, "weight_decay": 0.01, "lr": 0.1, "grad_clip": 1e9}
    scheme = some_scheme(some_pairs(), train=params)
    optimizer = optimise.optimizer_for(scheme.setting.model, scheme.setting.train)
    bias = scheme.setting.model.img.fc.bias
    velocity, expected = torch.zeros_like(bias), bias.detach().clone()
    for _ in range(2):
        optimise.step(scheme, optimizer, scheme.setting.pairs.batch(np.arange(0, 24, 3)))
        velocity = 0.9 * velocity + bias.grad + 0.01 * expected
        expected = expected - 0.1 * velocity
        torch.testing.assert_close(bias.detach(), expected)


# Similarities of this run fall below 0 in its first epoch.
DEADLY: dict[str, Any] = {"loss": "hal", "options": {"loss": {"gamma": 30.0, "eps": 0.3, "variant": "paper"}}}


@pytest.fixture(scope="module")
def _wide(tmp_path_factory):
    with chdir(root := tmp_path_factory.mktemp("wide")):
        ready(load_params(root), train=120, val=100)
    return root


@pytest.fixture
def wide(_wide, tmp_path, monkeypatch):
    """A working directory with enough validation images for chance to be low."""
    monkeypatch.chdir(shutil.copytree(_wide, tmp_path / "wide"))


def _params(run: dict, **options: object):
    return load_params(Path(), runs={"sum": {**PARAMS["runs"]["sum"], **run}}, train={**PARAMS["train"], **options})


def test_a_dead_run_is_ended_after_the_epoch_in_which_it_died_and_may_go_on(wide, capsys):
    for _ in range(2):  # the state is that of the epoch before
        with pytest.raises(DeadRun) as error:
            train(_params(DEADLY, lr=0.05, epochs=2), "sum", "cpu")
        assert error.value.exit_status == 1
        said = str(error.value)
        assert said.startswith("train sum: epoch 1/2: validation rsum ")
        parts = (
            "about that of chance (31.",
            "no gradient is left",
            "lower train.lr, or change the options of loss.hal",
            "stop_when_dead: false",
        )
        assert [part for part in parts if part not in said] == []
        assert not paths.trained("sum").exists(), "an earlier model would still be there"
        assert not any(paths.trained("sum").with_name("sum.partial").glob("last/*.pt"))
    capsys.readouterr()
    on = _params(DEADLY, lr=0.05, epochs=2, stop_when_dead=False)
    train(on, "sum", "cpu")
    assert history().epoch.tolist() == [1, 2]
    warnings = [line for line in capsys.readouterr().err.splitlines() if "no gradient is left" in line]
    assert len(warnings) == 2, "after the first epoch, and at the end"
    assert "train sum: epoch 1/2:" in warnings[0]
    train(_params(DEADLY, lr=0.05, epochs=2), "sum", "cpu")
    assert "up to date" in capsys.readouterr().err, "the option decides no weight"
    whole = weights_file()
    shutil.rmtree(paths.trained("sum"))
    train(on, "sum", "cpu")
    assert weights_file() == whole


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
    train(_params({"loss": "max"}, lr=3e-3, batch_size=48, epochs=16, lr_update=20), "sum", "cpu")
    said, rsums = capsys.readouterr().err, history().val_rsum
    assert "train sum: epoch 2/16: validation rsum" in said
    assert said.count("the loss stands still at 19.") == 1
    assert rsums.iloc[:2].max() < 47 < 85 < rsums.max()


def test_a_run_is_dead_without_a_gradient_and_alive_at_its_minimum():
    """A dead run of HAL has a loss of 0, which is the minimum of SUM."""
    for name, dead, least in (("sum", 6000.0, 0.0), ("hal", 0.0, -0.5)):
        watch = Watch(some_run(member(LOSSES, name), TrainParams()), 3.2)
        with pytest.raises(DeadRun, match=rf"no gradient is left .*loss\.{name}; train\.stop_when_dead"):
            watch.after([StepResult(dead, 0.0, 128)] * 8, [{"loss": dead, "val_rsum": 0.0}])
        assert watch.after([StepResult(least, 0.0, 128)] * 8, [{"loss": least, "val_rsum": 3.5}]) is None


def test_a_run_stands_still_when_two_epochs_at_chance_have_one_loss():
    watch, steps = Watch(some_run(member(LOSSES, "sum"), TrainParams()), 3.2), [StepResult(51.2, 0.3, 128)] * 8
    still, moves = ([{"loss": first, "val_rsum": 3.0}, {"loss": 51.2, "val_rsum": 3.4}] for first in (51.4, 52.4))
    assert "the loss stands still at 51.2" in watch.after(steps, still)
    assert watch.after(steps, moves) is None
    assert watch.after(steps, still[1:]) is None, "one epoch does not tell"
    warming = Watch(some_run(member(LOSSES, "sum"), TrainParams(warm_up=1.5)), 3.2)
    assert warming.after(steps, [still[0], *still]) is None
    assert warming.after(steps, [still[0], still[0], *still]) is not None
    assert watch.after(steps, [{**still[0], "val_rsum": 30.0}, still[1]]) is None
    assert watch.after(steps, [still[0], {**still[1], "val_rsum": 30.0}]) is None
    assert watch.after(steps, [{"loss": 300.0, "val_rsum": 3.0}, *still]) is None, "the pairs are learned"


def test_a_last_batch_of_few_pairs_does_not_tell_that_a_run_is_dead():
    watch = Watch(some_run(member(LOSSES, "hal"), TrainParams()), 3.2)
    steps = [*[StepResult(0.5, 0.3, 128)] * 3, StepResult(0.0, 0.0, 2)]
    assert watch.after(steps, [{"loss": 0.49, "val_rsum": 3.0}]) is None


def _first_rows(pairs) -> np.ndarray:
    """The feature row of each image."""
    return pairs.rows[np.unique(pairs.owners, return_index=True)[1]]


def _table(pairs, val_texts) -> TrainTable:
    """Every pair validates, too."""
    return TrainTable(pairs, np.arange(len(pairs)), pairs, val_texts)


@pytest.mark.parametrize("seed", range(4))
def test_texts_that_read_alike_are_ranked_once_with_all_their_images(seed):
    """As in plain loops over images and distinct texts; the caption of a text is its first."""
    pairs, numbers = some_pairs(40, each=2, seed=seed), np.random.default_rng(seed).integers(0, 15, 40)
    model = some_model(pairs, seed=seed)
    found = Validation(_table(pairs, numbers), 20, CPU)([model])
    texts, first = np.unique(numbers, return_index=True)
    seen = train_model.images(model, pairs.array, _first_rows(pairs), CPU)
    scores = (seen @ train_model.captions(model, pairs.texts, pairs.places[first], CPU).T).numpy()
    said = [{int(text) for text in numbers[pairs.owners == image]} for image in np.unique(pairs.owners)]
    for k in KS:
        told = [_recall(row, {texts.tolist().index(t) for t in own}, k) for row, own in zip(scores, said, strict=True)]
        assert found[f"val_i2t_r{k}"] == pytest.approx(100 * np.mean(told))
        answered = [
            _recall(column, {place for place, own in enumerate(said) if text in own}, k)
            for column, text in zip(scores.T, texts.tolist(), strict=True)
        ]
        assert found[f"val_t2i_r{k}"] == pytest.approx(100 * np.mean(answered))


def _recall(ranked: np.ndarray, correct: set[int], k: int) -> bool:
    """Ties count against a correct item."""
    best = max(ranked[one] for one in correct)
    return sum(ranked >= best) - sum(ranked[one] == best for one in correct) < k
