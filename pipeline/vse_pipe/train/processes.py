"""Several processes that train one model: their start and end.

The processes of one training are started here on one machine, or by ``torchrun`` on several
machines. The parent process waits for all, keeps the lock and reports errors; no process outlives
it. The processes meet in a file, so trainings that run at the same time need no ports.
"""

import atexit
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.queues import SimpleQueue
from typing import Any

import torch
from torch import distributed
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from vse_pipe.core import console, processes
from vse_pipe.core.errors import PipelineError, UsageError, out_of_memory
from vse_pipe.core.locks import die_with_parent

# Long, because processes wait for a share of the whole data set. The parent notices a process that
# has ended.
_TIMEOUT = timedelta(hours=12)


def run(work: Callable[..., Any], count: int, device: torch.device) -> None:
    """Run ``work(device)`` in ``count`` processes, each on its device; they form the group of
    ``core.processes``.

    Raises the error of the first process that failed, UsageError
    where a process has no GPU, PipelineError where a process was ended from outside. The other
    processes are ended too.
    """
    gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index is not None or gpus < count):
        raise UsageError(
            f"train.processes {count} need a GPU each, and there are {gpus} for device "
            f"{device}; set --device cpu or train.processes"
        )
    errors = multiprocessing.get_context("spawn").SimpleQueue()
    threads = max(1, torch.get_num_threads() // count)
    # Libraries read the first when they are imported. The second: a new process would import files
    # of the working directory in place of Python's, such as pickle.py.
    os.environ |= {"OMP_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
        arguments = f"file://{folder}/meeting", count, threads, device.type, console.level()
        started = start_processes(_work, (*arguments, errors, work), count, join=False, start_method="spawn")
        try:
            while not started.join():
                pass
        except ProcessExitedException as exited:
            raise _cause(exited, errors) from exited
        finally:
            for process in started.processes:
                process.kill()
                process.join()


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
    number: int,
    place: str,
    count: int,
    threads: int,
    kind: str,
    level: int,
    errors: SimpleQueue,
    work: Callable,
) -> None:
    """The main function of a process: ``work``, and a report to the parent where it fails."""
    die_with_parent(signal.SIGKILL)  # the parent holds the lock
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends all processes
    console.set_level(level)
    torch.set_num_threads(threads)
    os.environ["LOCAL_RANK"] = str(number)
    if sys.platform == "linux":  # one machine, so its host name need not resolve
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        _join(place, number, count, kind)
        work(joined(torch.device(kind)))
        processes.wait()
        distributed.destroy_process_group()
    except Exception as error:
        console.trace()
        if not isinstance(error, PipelineError | OSError) and not out_of_memory(error):
            raise  # a mistake of the program
        errors.put(error)
        sys.exit(PipelineError.exit_status)


def _join(place: str, number: int, count: int, kind: str) -> None:
    # Both backends, because some tensors stay on the CPU.
    backend = "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=place, rank=number, world_size=count, timeout=_TIMEOUT)
    torch.set_flush_denormal(True)
    if number:
        console.silence()


def _cause(exited: ProcessExitedException, errors: SimpleQueue) -> Exception:
    """The error of the process that failed; the others only lost their partner."""
    while not errors.empty():
        if not isinstance(error := errors.get(), processes.Lost):
            return error
    reason = exited.signal_name or f"status {exited.exit_code}"
    return PipelineError(
        f"process {exited.error_index + 1} was ended by {reason}; run the same command again, "
        "it goes on after its last whole epoch"
    )
