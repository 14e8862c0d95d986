"""Several processes that train one model: their start and end.

They are started here on one machine, or by ``torchrun`` on several. The parent keeps the lock, and
no process outlives it. They meet in a file, so trainings at the same time need no ports.
"""

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from vse_pipe.core import console, processes
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.core.locks import die_with_parent

# Long, because processes wait for a share of the whole data set. The parent notices a process that
# has ended.
_TIMEOUT = timedelta(hours=12)


def run(work: Callable[[torch.device], Any], count: int, device: torch.device) -> None:
    """Run ``work(device)`` in ``count`` processes, each on its device; they form the group of
    ``core.processes``.

    Raises the error of the first process that failed, UsageError where a process has no GPU,
    PipelineError where a process was ended from outside. The other processes are ended too.
    """
    gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index is not None or gpus < count):
        raise UsageError(
            f"train.processes {count} need a GPU each, and there are {gpus} for device "
            f"{device}; set --device cpu or train.processes"
        )
    threads = max(1, torch.get_num_threads() // count)
    # Libraries read the first when they are imported. The second: a new process would import files
    # of the working directory in place of Python's, such as pickle.py.
    os.environ |= {"OMP_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder, ProcessPoolExecutor(count, spawn) as pool:
        arguments = f"file://{folder}/meeting", count, threads, device.type, console.level(), work
        futures = [pool.submit(_work, number, *arguments) for number in range(count)]
        try:
            for future in as_completed(futures):
                future.result()
        except (BrokenProcessPool, processes.Lost) as error:
            advice = "run the same command again, it goes on after its last whole epoch"
            raise PipelineError(f"one of the processes was ended; {advice}") from error
        finally:
            for process in multiprocessing.active_children():
                process.kill()


def joined(device: torch.device) -> torch.device:
    """The device of this process. A process that ``torchrun`` has started joins the group first."""
    if not processes.has_group() and "TORCHELASTIC_RUN_ID" in os.environ:
        _join("env://", int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), device.type)
        atexit.register(distributed.destroy_process_group)
    if processes.has_group() and device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    return device


def _work(
    number: int, place: str, count: int, threads: int, kind: str, level: int, work: Callable[[torch.device], Any]
) -> None:
    """The main function of a process."""
    die_with_parent(signal.SIGKILL)  # the parent holds the lock
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends all processes
    console.set_level(level)
    torch.set_num_threads(threads)
    os.environ["LOCAL_RANK"] = str(number)
    if sys.platform == "linux":  # one machine, so its host name need not resolve
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    _join(place, number, count, kind)
    work(joined(torch.device(kind)))
    processes.wait()
    distributed.destroy_process_group()


def _join(place: str, number: int, count: int, kind: str) -> None:
    # Both backends, because some tensors stay on the CPU.
    backend = "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=place, rank=number, world_size=count, timeout=_TIMEOUT)
    torch.set_flush_denormal(True)
    if number:
        console.silence()
