"""Stages that are killed or told to stop."""

import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.faults import warm
from tests.train.some import state_file
from vse_pipe.core import files
from vse_pipe.train import checkpoint

pytestmark = pytest.mark.acceptance
_RUN = Path("data/train/sum")
_MODEL, _UNFINISHED = _RUN / "model.safetensors", files.partial_folder(_RUN)
_EPOCHS = 30
_LONG = ("-S", f"train.epochs={_EPOCHS}", "train")


@pytest.fixture(scope="module")
def _long(_staged_once, tmp_path_factory):
    folder = tmp_path_factory.mktemp("long") / "project"
    shutil.copytree(_staged_once, folder)
    shutil.rmtree(folder / _RUN)
    warm.run(folder, *_LONG)
    return (folder / _MODEL).read_bytes()


@pytest.fixture
def long(_long, staged):
    """The weights of a run that nobody disturbed; in the working directory it is not trained."""
    shutil.rmtree(_RUN)
    return _long


def _epochs_done() -> int:
    return checkpoint.read(state_file())["progress"]["epoch"]


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"])
def test_case_03_a_training_that_is_told_to_stop_goes_on_with_the_next_epoch(staged, long, sent, status):
    process = warm.started(staged, *_LONG)
    warm.until(lambda: any(_UNFINISHED.glob("last/*.pt")), process)
    os.kill(process.pid, sent)
    process.join()
    said = Path(warm.SAID).read_text()
    assert process.exitcode == status, said
    assert "the same command goes on where it was" in said
    done = _epochs_done()
    assert done < _EPOCHS
    said = warm.run(staged, *_LONG)
    assert f"epoch {done + 1}/{_EPOCHS}" in said
    assert f"epoch {done}/{_EPOCHS}" not in said
    assert _MODEL.read_bytes() == long


def die_at(event: str, name: str, number: int) -> None:
    """SIGKILL before the ``number``-th ``event`` that has ``name`` in a path."""
    seen = [0]

    def hook(what: str, arguments: tuple) -> None:
        if what == event and name in str(arguments[0]):
            seen[0] += 1
            if seen[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def test_case_04_killed_while_it_writes_a_checkpoint_the_one_before_is_whole(staged, long):
    process = warm.started(staged, *_LONG, first=partial(die_at, "os.rename", ".pt", 5))
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert _epochs_done() == 4
    warm.run(staged, *_LONG)
    assert _MODEL.read_bytes() == long
    assert not _UNFINISHED.exists()
