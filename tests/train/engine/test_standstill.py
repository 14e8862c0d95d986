"""A dead run is ended after the epoch in which it died; a plateau is said, and training leaves it."""

import shutil
from functools import partial
from typing import Any

import pytest
import torch

from tests.toy_project import PARAMS, load_params, write_prepared
from vse_pipe.artifacts import model_files
from vse_pipe.core.errors import DeadRun
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import checkpoint, stage
from vse_pipe.train.loop import StepResult, Watch
from vse_pipe.train.stage import train

# Similarities of this run fall below 0 in its first epoch.
DEADLY: dict[str, Any] = {"loss": "hal", "options": {"loss": {"gamma": 30.0, "eps": 0.3, "variant": "paper"}}}


@pytest.fixture
def wide(tmp_path, monkeypatch):
    """A working directory with enough validation images for chance to be low."""
    monkeypatch.chdir(tmp_path)
    write_prepared(train=120, val=100)
    params = load_params(tmp_path)
    inject(params, "clean")
    extract_texts(params, "words")
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
