"""Several processes train as one."""

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

from tests.rules.sources import ROOT
from tests.toy_project import PARAMS, load_params
from tests.train import ranked
from tests.train.ranked import FRAGMENTS, Found, on
from tests.train.some import history, killed_after, state_file
from vse_pipe.artifacts import model_files
from vse_pipe.core import files
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths
from vse_pipe.project.registry import LOSSES
from vse_pipe.train import checkpoint, processes
from vse_pipe.train.stage import train

_DVC = """
stages:
  train:
    cmd: vse-pipe train --run sum
    deps: [data/inject]
    params: [train]
    outs: [{data/train/sum: {persist: true}}]
"""
# Members that look at the whole batch. What is drawn, each process draws for itself.
WHOLE = {
    "words": {"text": {"pooling": "gpo", "bidirectional": True}},
    "residual": {"image": {"name": "residual", "hidden": 7, "dropout": 0.0}},
    "batch norm last": {"image": {"name": "two_branch", "hidden": 7, "dropout": 0.3}, "text": {"dropout": 0.3}},
    "batch norm first": {"image": {"name": "two_branch", "hidden": 7, "dropout": 0.0, "batch_norm": "first"}},
    "chunks": {"train": {"chunk": 4}},
    "a learned temperature": {"loss": "infonce"},
}
SCHEMES = {
    "memory_bank": {"loss": "hal", "options": {"share": 0.5, "k": 4}},
    "l2rm": {"loss": "max", "options": {"warm_up": 1, "mass": 0.4, "cost_lr": 0.01}},
    "ncr": {"loss": "max", "options": {"warm_up": 1}},
    "bicro": {"loss": "max", "options": {"warm_up": 1}},
    "crcl": {"loss": "crcl", "options": {"warm_up": 1, "restarts": [2]}},
    "decl": {"loss": "decl", "options": {"warm_up": 1}},
    "distil": {"loss": "max", "options": {}},
}


def _weights(run: str) -> dict[str, np.ndarray]:
    return {name: one.numpy() for name, one in model_files.read(paths.trained(run)).weights.items()}


def _assert_near(run: str, expected: dict[str, np.ndarray]) -> None:
    for name, weight in _weights(run).items():
        np.testing.assert_allclose(weight, expected[name], rtol=1e-2, atol=1e-3, err_msg=name)


@pytest.mark.acceptance
def test_a_run_of_one_process_goes_on_with_three_and_ends_where_one_does(project):
    section = {**PARAMS["train"], "average": 0.9}
    params = load_params(project, train=section, text={"gru": {"word_dim": 6}})
    train(params, "sum", "cpu")
    alone, losses = _weights("sum"), history()["loss"]
    shutil.rmtree(paths.trained("sum"))
    killed_after(2, params, "sum")
    on(3, train, params, "sum", "cpu")
    _assert_near("sum", alone)
    np.testing.assert_allclose(history()["loss"], losses, rtol=1e-4)


def test_what_the_first_finds_on_its_disk_counts():
    assert on(2, ranked.answered) == [[True, False]] * 2


def test_a_gpu_for_each_is_needed():
    with pytest.raises(UsageError, match=r"^train.processes 99 need a GPU each, and there are \d+ "):
        processes.run(print, 99, torch.device("cuda"))


@pytest.mark.acceptance
def test_under_dvc_a_killed_process_ends_all_and_one_process_goes_on(project, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/pipeline:{ROOT}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    many = {**PARAMS["train"], "epochs": 40, "processes": 2}
    load_params(project, train=many)
    Path("dvc.yaml").write_text(_DVC)
    subprocess.run(["dvc", "init", "-q", "--no-scm"], check=True)
    out = files.partial_folder(paths.trained("sum"))
    with subprocess.Popen(["dvc", "repro"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as dvc:
        _until(lambda: len(_workers(dvc.pid)) == 2, dvc)
        workers = _workers(dvc.pid)
        _until(lambda: any(out.glob("last/*.pt")), dvc)
        os.kill(workers[1], signal.SIGKILL)
        said, _ = dvc.communicate(timeout=300)
    assert dvc.returncode != 0
    assert said.count("error: train sum: one of the processes was ended; run the same command again") == 1
    assert "Traceback" not in said
    assert not any(Path(f"/proc/{one}").exists() for one in workers)
    done = checkpoint.read(state_file())["progress"]["epoch"]
    load_params(project, train={**many, "processes": 1})
    again = subprocess.run(["dvc", "repro"], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert f"going on after epoch {done} of 40" in again.stderr + again.stdout


def _until(seen, process: subprocess.Popen | None = None, seconds: int = 300) -> None:
    ends = time.monotonic() + seconds
    while not seen():
        assert process is None or process.poll() is None
        assert time.monotonic() < ends
        time.sleep(0.05)


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


# They train as one: the gradient is that of the single batch, whatever the loss, the scheme and the number.


def _asked(
    work: Callable[..., Found], count: int, cases: list[dict], *arguments: object, tolerance: float, floor: float = 1.0
) -> None:
    """``work`` of each case by ``count`` ranks against one process, which goes first: what it compiles the ranks find.

    tolerance: of the largest number of each tensor, or of ``floor`` where that is larger."""
    alone = ranked.each(work, cases, *arguments)
    found = on(count, ranked.each, work, cases, *arguments)
    for case, ranks, (expected, wanted) in zip(cases, zip(*found, strict=True), alone, strict=True):
        assert any(tensor.any() for tensor in wanted.values())
        for values, tensors in ranks:
            np.testing.assert_allclose(values, expected, rtol=tolerance, err_msg=str(case))
            assert tensors.keys() == wanted.keys()
            for name, tensor in wanted.items():
                largest = max(floor, np.abs(tensor).max(initial=0))
                np.testing.assert_allclose(tensors[name], tensor, 0, tolerance * largest, err_msg=f"{case} {name}")


# 17 pairs are no multiple of 2 or 3, and of 2 pairs the third rank has none.
@pytest.mark.acceptance
@pytest.mark.parametrize(("count", "size"), [(2, 17), (3, 17), (3, 2)])
def test_the_gradient_is_that_of_the_single_batch(count, size):
    """Of every loss, every similarity, and of what looks at the whole batch."""
    cases = [{"loss": loss} for loss in LOSSES.names()]
    cases += [{"similarity": similarity} for similarity in ("order", *FRAGMENTS)]
    _asked(ranked.gradient, count, [*cases, *WHOLE.values()], size, tolerance=1e-12)


@pytest.mark.acceptance
@pytest.mark.parametrize("count", [2, 3])
def test_every_scheme_ends_where_one_process_does(count):
    """Three epochs with a moving average, a decayed rate and clipped gradients."""
    train = {"optimiser": "sgd", "lr": 0.05, "average": 0.9, "lr_update": 2}
    cases = [{**case, "scheme": name, "train": train} for name, case in SCHEMES.items()]
    _asked(ranked.epochs, count, cases, 3, tolerance=1e-9)


def test_two_ranks_have_the_gradient_of_one():
    _asked(ranked.gradient, 2, [{}], 17, tolerance=1e-12)
