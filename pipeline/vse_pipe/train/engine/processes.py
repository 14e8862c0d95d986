"""The processes of one training: started here on one machine, or by ``torchrun`` on several.

One that waits for all keeps the lock and says what went wrong; none outlives it. They meet in a file, so that trainings side
by side need no ports of their own.
"""

import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch import distributed

from vse_pipe.core import console, processes
from vse_pipe.core.errors import PipelineError, UsageError, out_of_memory, shortage
from vse_pipe.core.locks import die_with_parent

# A share of the whole data set is waited for once; that a process has ended is noticed by who waits for all.
_TIMEOUT = timedelta(hours=12)
_TO_END_S = 10.0
_GOES_ON = "run the same command again, it goes on after its last whole epoch"


def run(work: Callable[..., Any], arguments: tuple, count: int, device: torch.device, told: str) -> None:
    """``work(*arguments, device)`` in ``count`` processes, to whose group ``vse_pipe.core.processes`` speaks; device: of each its own.

    Raises what the first that failed has raised, UsageError without a GPU for each, PipelineError where one was ended from
    outside; the others are ended with it. told: the training, for messages.
    """
    if device.type == "cuda" and (device.index is not None or torch.cuda.device_count() < count):
        raise UsageError(
            f"{told}: train.processes {count} need a GPU each, and there are {torch.cuda.device_count()} "
            f"for device {device}; set --device cpu or train.processes"
        )
    context = multiprocessing.get_context("spawn")
    errors = [context.Pipe(duplex=False) for _ in range(count)]
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder, _threads(count) as threads:
        how = f"file://{folder}/meeting", count, threads, device.type, console.level()
        started = [
            context.Process(target=_work, args=(place, *how, end, work, arguments))
            for place, (_, end) in enumerate(errors)
        ]
        try:
            for one in started:
                one.start()
            while alive := [one.sentinel for one in started if one.exitcode is None]:
                wait(alive)
                if any(statuses := [one.exitcode for one in started]):
                    raise _cause(statuses, [end.recv() for end, _ in errors if end.poll()], told)
        finally:
            _end(started)


def joined(device: torch.device) -> torch.device:
    """This process's device; of one that ``torchrun`` has started, which joins the others first."""
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
    errors: Connection,
    work: Callable,
    arguments: tuple,
) -> None:
    """What a process does: ``work`` with the others, and say why it failed."""
    die_with_parent(signal.SIGKILL)  # who held the lock is gone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for all ends all
    console.set_level(level)
    console.tolerate_any_terminal()
    console.outlive_readers()
    torch.set_num_threads(threads)
    os.environ["LOCAL_RANK"] = str(number)
    if sys.platform == "linux":  # one machine: whatever its name stands for
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        _join(place, number, count, kind)
        work(*arguments, joined(torch.device(kind)))
        processes.wait()
        distributed.destroy_process_group()
    except Exception as error:
        console.trace()
        if (plain := _plain(error)) is None:
            raise
        errors.send(plain)
        sys.exit(plain.exit_status)


def _join(place: str, number: int, count: int, kind: str) -> None:
    # Both, for some tensors stay on the CPU.
    backend = "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=place, rank=number, world_size=count, timeout=_TIMEOUT)
    torch.set_flush_denormal(True)
    if number:
        console.silence()


def _plain(error: Exception) -> PipelineError | None:
    """The error as the command line says it; None for one that is a mistake of the program."""
    if isinstance(error, PipelineError):
        return error
    if out_of_memory(error):
        return PipelineError(shortage(error))
    if isinstance(error, OSError):
        return PipelineError(f"{error.filename or 'input/output'}: {error.strerror or error}")
    return None


def _cause(statuses: list[int | None], errors: list[PipelineError], told: str) -> PipelineError:
    """Of the first end that was none: later ones lost their partner."""
    for place, status in enumerate(statuses):
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            return PipelineError(f"{told}: process {place + 1} of {len(statuses)} was ended by {name}; {_GOES_ON}")
    own = [error for error in errors if not isinstance(error, processes.Lost)]
    if errors:
        return own[0] if own else PipelineError(f"{told}: {errors[0]}; {_GOES_ON}")
    place, status = next((place, status) for place, status in enumerate(statuses) if status)
    return PipelineError(f"{told}: process {place + 1} of {len(statuses)} failed with status {status}; {_GOES_ON}")


def _end(started: list) -> None:
    """None is left when this returns."""
    alive = [one for one in started if one.pid is not None]
    for one in alive:
        one.terminate()
    until = time.monotonic() + _TO_END_S
    for one in alive:
        one.join(max(0.0, until - time.monotonic()))
    for one in alive:
        if one.exitcode is None:
            one.kill()
            one.join()


@contextlib.contextmanager
def _threads(count: int) -> Iterator[int]:
    """Threads of each process: an even part of those that one would have. Libraries read theirs when they are imported."""
    name, each = "OMP_NUM_THREADS", max(1, torch.get_num_threads() // count)
    before = os.environ.get(name)
    os.environ[name] = str(each)
    try:
        yield each
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})
