"""Cases 1 to 4, 27 and 30 of the acceptance suite: stages that are killed, stopped or starved."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.faults import kill_extract, warm
from tests.rules.sources import ROOT
from vse_pipe.artifacts import features
from vse_pipe.core import files
from vse_pipe.extract import networks
from vse_pipe.train import checkpoint, optimise

pytestmark = pytest.mark.acceptance
_RUN = Path("data/train/sum")
_MODEL, _UNFINISHED = _RUN / "model.safetensors", files.partial(_RUN)
_STATE = _UNFINISHED / checkpoint.STATE
_EPOCHS = 30
_LONG = ("-S", f"train.epochs={_EPOCHS}", "train")


@pytest.fixture(scope="module")
def _extraction(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extraction")
    with contextlib.chdir(folder):
        kill_extract.make(folder)
        warm.run(folder, *kill_extract.STAGE[1:])
        return folder, kill_extract.bytes_of()


@pytest.fixture
def extraction(_extraction, monkeypatch):
    """A project under DVC in which nothing is extracted; the bytes that an extraction gives."""
    folder, whole = _extraction
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/pipeline:{ROOT}")
    kill_extract.emptied()
    return whole


def test_case_01_killed_with_its_group_an_extraction_goes_on_where_it_was(extraction):
    process = subprocess.Popen(kill_extract.DVC, start_new_session=True)
    kill_extract.gone(lambda: kill_extract.shards() < 5, "no shards")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = kill_extract.shards()
    again = subprocess.run(kill_extract.DVC[:-1], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert f"going on after {kept} of {kill_extract.IMAGES // kill_extract.SHARD} shards" in again.stderr + again.stdout
    assert kill_extract.bytes_of() == extraction


def test_case_02_a_stage_ends_with_the_dvc_that_started_it(extraction):
    kill_extract.kill_dvc(9)
    assert kill_extract.bytes_of() == extraction


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


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["TERM", "INT"])
def test_case_03_a_training_that_is_told_to_stop_goes_on_with_the_next_epoch(staged, long, sent, status):
    process = warm.started(staged, *_LONG)
    warm.until(_STATE.is_file, process)
    os.kill(process.pid, sent)
    process.join()
    said = Path(warm.SAID).read_text()
    assert process.exitcode == status, said
    assert "the same command goes on where it was" in said
    done = checkpoint._read(_UNFINISHED)[0]["epoch"]
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
    process = warm.started(staged, *_LONG, first=partial(die_at, "os.rename", "state.safetensors", 5))
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert checkpoint._read(_UNFINISHED)[0]["epoch"] == 4
    warm.run(staged, *_LONG)
    assert _MODEL.read_bytes() == long
    assert not _UNFINISHED.exists()


def short_of_memory(largest: int) -> None:
    """As the CPU's allocator refuses, batches of more than ``largest`` in extraction and every step of the third epoch."""
    refusal = "[enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
    forward, epoch = networks.RandomFilters.forward, optimise.train_epoch

    def refused(self, batch: torch.Tensor) -> torch.Tensor:
        if len(batch) > largest:
            raise RuntimeError(refusal)
        return forward(self, batch)

    def refused_epoch(*arguments):
        if arguments[4] == 2:
            raise RuntimeError(refusal)
        return epoch(*arguments)

    networks.RandomFilters.forward, optimise.train_epoch = refused, refused_epoch


def test_case_27_without_memory_extraction_halves_its_batch(staged):
    before = features.read(Path("data/extract/toy/plain")).array.copy()
    shutil.rmtree("data/extract/toy/plain")
    said = warm.run(staged, "extract", "--features", "plain", first=partial(short_of_memory, 1))
    assert "going on with 1 at a time" in said
    np.testing.assert_allclose(features.read(Path("data/extract/toy/plain")).array, before, atol=1e-6)


def test_case_27_without_memory_training_ends_with_advice_and_keeps_its_epochs(staged):
    whole = _MODEL.read_bytes()
    shutil.rmtree(_RUN)
    said = warm.run(staged, "train", first=partial(short_of_memory, 1), status=(1,))
    assert "out of memory" in said
    assert "train.batch_size" in said
    assert checkpoint._read(_UNFINISHED)[0]["epoch"] == 2
    warm.run(staged, "train")
    assert _MODEL.read_bytes() == whole
