"""What each of several processes draws is its part of what one draws; none is started here."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torchvision.ops import stochastic_depth

from tests.regions_project import write_regions_project
from tests.rules.sources import ROOT
from tests.toy_project import PARAMS, load_params
from tests.train import ranked
from tests.train.ranked import on
from tests.train.schemes.test_hard_negatives import MINED
from tests.train.some import killed_after
from vse_pipe.artifacts import model_files
from vse_pipe.core import files
from vse_pipe.core import processes as core_processes
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.core.processes import Share
from vse_pipe.project import paths
from vse_pipe.train import checkpoint, processes
from vse_pipe.train.stage import train

SIZES = (3, 2)
LENGTHS = torch.tensor([2, 5, 1, 4, 3])
SHARES = [Share(SIZES, number) for number in range(len(SIZES))]


def _drawn(share: Share | None, work: Callable[[], Tensor]) -> Tensor:
    torch.manual_seed(7)
    with processes.rows(share or Share((sum(SIZES),), 0)):
        return work()


def _packed(words: Tensor, lengths: Tensor) -> PackedSequence:
    return pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)


def _dropped(p: float, words: Tensor, lengths: Tensor) -> Tensor:
    packed = _packed(words, lengths)
    data = processes.token_dropout(nn.Dropout(p), packed, packed.data)
    return pad_packed_sequence(PackedSequence(data, *packed[1:]), batch_first=True)[0]


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_words_left_out_are_those_of_one_process(device, monkeypatch):
    monkeypatch.setattr(Share, "gather", lambda share, own: LENGTHS)
    words = torch.rand(sum(SIZES), 5, 4, device=device) + 1
    whole = _drawn(None, lambda: _dropped(0.5, words, LENGTHS))
    assert 0 < (whole == 0).sum() - (5 * 5 - LENGTHS.sum()) * 4 < LENGTHS.sum() * 4
    for share in SHARES:
        own = _drawn(share, lambda rows=share.rows: _dropped(0.5, words[rows], LENGTHS[rows]))
        torch.testing.assert_close(own, whole[share.rows, : own.shape[1]], rtol=0, atol=0)


def test_without_dropout_nobody_is_asked(monkeypatch):
    monkeypatch.setattr(Share, "gather", lambda share, own: pytest.fail("nothing is drawn"))
    words = torch.rand(3, 5, 4)
    own = _drawn(SHARES[0], lambda: _dropped(0.0, words, LENGTHS[:3]))
    assert torch.equal(own, pad_packed_sequence(_packed(words, LENGTHS[:3]), batch_first=True)[0])


@pytest.mark.parametrize("crops", [1, 3])
def test_branches_left_out_are_those_of_one_process(crops):
    def left(images: int) -> Tensor:
        return stochastic_depth(torch.ones(images * crops, 2, 2), 0.5, "row")

    whole = _drawn(None, lambda: left(sum(SIZES)))
    assert 0 < whole.sum() < whole.numel() * 2
    own = [_drawn(share, lambda size=size: left(size)) for share, size in zip(SHARES, SIZES, strict=True)]
    assert torch.equal(torch.cat(own), whole)


def test_what_is_drawn_for_other_rows_is_refused():
    with pytest.raises(UsageError, match="random numbers for 1 rows where 3 are encoded"):
        _drawn(SHARES[0], lambda: stochastic_depth(torch.ones(3, 2), 0.5, "batch"))


_DVC = """
stages:
  train:
    cmd: vse-pipe train --run sum
    deps: [data/inject]
    params: [train]
    outs: [{data/train/sum: {persist: true}}]
"""


def _weights(run: str) -> dict[str, np.ndarray]:
    return {name: one.numpy() for name, one in model_files.read(paths.trained(run)).weights.items()}


def _assert_near(run: str, expected: dict[str, np.ndarray]) -> None:
    for name, weight in _weights(run).items():
        np.testing.assert_allclose(weight, expected[name], rtol=1e-2, atol=1e-3, err_msg=name)


@pytest.mark.acceptance
def test_a_run_of_one_process_goes_on_with_three_and_ends_where_one_does(project):
    params = load_params(
        project, train={**PARAMS["train"], "average": 0.9}, text={"gru": {"word_dim": 6, "dropout": 0.3}}
    )
    train(params, "sum", "cpu")
    alone, rows = _weights("sum"), model_files.read_history(paths.trained("sum"))
    assert "processes" not in model_files.read_config(paths.trained("sum"))
    shutil.rmtree(paths.trained("sum"))
    killed_after(2, params, "sum")
    on(3, train, params, "sum", "cpu")
    assert model_files.read_config(paths.trained("sum"))["processes"] == 3
    _assert_near("sum", alone)
    np.testing.assert_allclose(model_files.read_history(paths.trained("sum"))["loss"], rows["loss"], rtol=1e-4)


@pytest.mark.acceptance
def test_regions_are_mined_by_two_as_by_one(tmp_path, monkeypatch):
    """By plain descent: Adam makes steps of the rounding errors of biases that batch normalisation takes away again."""
    monkeypatch.chdir(tmp_path)
    slow = {**MINED, "train": {**MINED["train"], "optimiser": "sgd", "lr": 0.02}}
    params = write_regions_project(tmp_path, mined=slow)
    train(params, "mined", "cpu")
    alone = _weights("mined")
    shutil.rmtree(paths.trained("mined"))
    on(2, train, params, "mined", "cpu")
    _assert_near("mined", alone)


def test_processes_that_drift_apart_are_told():
    with pytest.raises(AssertionError, match="PipelineError: the processes no longer hold the same weights"):
        on(2, ranked.drifted)


def test_what_the_first_finds_on_its_disk_counts():
    assert on(2, ranked.answered) == [[True, False]] * 2


@pytest.mark.acceptance
def test_a_run_that_is_finished_for_the_first_is_so_for_all(project):
    params = load_params(project)
    train(params, "sum", "cpu")
    alone = _weights("sum")
    on(2, ranked.trained_elsewhere, params, "checkpoint.is_finished", False)
    assert all((weight == alone[name]).all() for name, weight in _weights("sum").items())


@pytest.mark.acceptance
def test_processes_that_would_go_on_after_other_epochs_are_told(project):
    params = load_params(project)
    killed_after(1, params, "sum")
    with pytest.raises(
        AssertionError, match="PipelineError: the processes no longer hold the same epoch to go on after"
    ):
        on(2, ranked.trained_elsewhere, params, "checkpoint.resume", checkpoint.Progress())


@pytest.mark.acceptance
def test_a_run_of_two_that_one_ends_has_had_two(project):
    params = load_params(project)
    on(2, ranked.killed_after_one, params)
    train(params, "sum", "cpu")
    assert model_files.read_history(paths.trained("sum")).epoch.tolist() == [1, 2, 3, 4]
    assert model_files.read_config(paths.trained("sum"))["processes"] == 2


@pytest.mark.acceptance
def test_no_process_outlives_the_one_that_holds_the_lock(tmp_path):
    code = f"""
import torch; from pathlib import Path; from vse_pipe.train import processes; from tests.train.ranked import asleep
processes.run(asleep, (Path({str(tmp_path)!r}),), 2, torch.device("cpu"), "toy")
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as parent:
        _until(lambda: len(list(tmp_path.iterdir())) == 2, parent)
        workers = [int(path.name) for path in tmp_path.iterdir()]
        parent.kill()
    until = time.monotonic() + 10
    while not all(map(_ended, workers)):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_memory_that_runs_out_is_no_loss_of_another():
    error = torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(torch.OutOfMemoryError) as found, core_processes._together():
        raise error
    assert found.value is error


def test_why_another_is_lost_is_said_in_one_line():
    with (
        pytest.raises(core_processes.Lost, match=r"does not answer \(Connection closed by peer\)$"),
        core_processes._together(),
    ):
        raise RuntimeError("Connection closed by peer\nat pair.cc:534")


def test_a_gpu_for_each_is_needed():
    with pytest.raises(UsageError, match=r"^train sum: train.processes 99 need a GPU each, and there are \d+ "):
        processes.run(print, (), 99, torch.device("cuda"), "train sum")


@pytest.mark.parametrize(
    ("statuses", "said", "expected"),
    [
        ([1, -9], ["lost"], r"^train sum: process 2 of 2 was ended by SIGKILL; run the same command again"),
        ([1, 3], ["lost", "own"], "^own$"),
        ([1, None], ["lost"], "^train sum: lost; run"),
        ([None, 7], [], "^train sum: process 2 of 2 failed with status 7; run"),
    ],
)
def test_the_first_failure_is_what_is_said(statuses, said, expected):
    """Not that of those who lost their partner by it."""
    errors = [PipelineError(one) if one == "own" else core_processes.Lost(one) for one in said]
    with pytest.raises(PipelineError, match=expected):
        raise processes._cause(statuses, errors, "train sum")


@pytest.mark.acceptance
def test_under_dvc_a_killed_process_ends_all_and_one_process_goes_on(project, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/pipeline:{ROOT}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    many = {**PARAMS["train"], "epochs": 40, "processes": 2}
    load_params(project, train=many)
    Path("dvc.yaml").write_text(_DVC)
    subprocess.run(["dvc", "init", "-q", "--no-scm"], check=True)
    out = files.partial(paths.trained("sum"))
    with subprocess.Popen(["dvc", "repro"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as dvc:
        _until(lambda: len(_workers(dvc.pid)) == 2, dvc)
        workers = _workers(dvc.pid)
        _until(lambda: (out / checkpoint.STATE).is_file(), dvc)
        os.kill(workers[1], signal.SIGKILL)
        said, _ = dvc.communicate(timeout=300)
    assert dvc.returncode != 0
    assert said.count("error: train sum: process ") == 1
    assert "of 2 was ended by SIGKILL; run the same command again" in said
    assert "Traceback" not in said
    assert not any(Path(f"/proc/{one}").exists() for one in workers)
    done = len(model_files.read_history(out))
    load_params(project, train={**many, "processes": 1})
    again = subprocess.run(["dvc", "repro"], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert f"going on after epoch {done} of 40" in again.stderr + again.stdout


def _until(seen, process: subprocess.Popen) -> None:
    ends = time.monotonic() + 300
    while not seen():
        assert process.poll() is None
        assert time.monotonic() < ends
        time.sleep(0.05)


def _ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _workers(of: int) -> list[int]:
    """The ranks below a process, in the order they were started in."""
    parents, said = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            said[int(place.name)] = (place / "cmdline").read_text()
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    below, some = {of}, {of}
    while some:
        some = {pid for pid, parent in parents.items() if parent in below} - below
        below |= some
    return sorted(pid for pid in below if "spawn_main" in said.get(pid, ""))
