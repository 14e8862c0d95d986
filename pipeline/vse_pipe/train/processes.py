"""Several processes that train one model: batch normalisation over the whole batch, start and end.

Each process encodes some rows of a batch and draws its own random numbers, as dropout needs them.

The processes of one training are started here on one machine, or by ``torchrun`` on several
machines. The parent process waits for all, keeps the lock and reports errors; no process outlives
it. The processes meet in a file, so trainings that run at the same time need no ports.
"""

import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import timedelta
from multiprocessing.queues import SimpleQueue
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.multiprocessing.spawn import ProcessExitedException, start_processes
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from vse_pipe.core import console, processes
from vse_pipe.core.errors import PipelineError, UsageError, out_of_memory
from vse_pipe.core.locks import die_with_parent
from vse_pipe.core.processes import Share

_share: ContextVar[Share | None] = ContextVar("share", default=None)
# Long, because processes wait for a share of the whole data set. The parent notices a process that
# has ended.
_TIMEOUT = timedelta(hours=12)


@contextlib.contextmanager
def rows(share: Share) -> Iterator[None]:
    """Context of a forward pass on the rows that ``share`` gives to this process. Batch
    normalisation gathers the rows of all processes."""
    if len(share.sizes) == 1:
        yield
        return
    token = _share.set(share)
    hooks = (
        register_module_forward_pre_hook(_whole_batch),
        register_module_forward_hook(_rows_of_process),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        _share.reset(token)


def count(vectors: Tensor) -> int:
    """Rows of the whole batch; ``vectors`` are the rows of this process."""
    share = _share.get()
    return len(vectors) if share is None else sum(share.sizes)


def _normalising(layer: nn.Module) -> Share | None:
    """The share of the batch, for a layer that normalises over the batch."""
    is_one = isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training
    return _share.get() if is_one else None


def _whole_batch(layer: nn.Module, inputs: tuple) -> Any:
    """The rows of all processes as input of a layer that normalises over the batch."""
    if (share := _normalising(layer)) is None:
        return None
    # An image has several rows where it has several crops.
    crops = len(inputs[0]) // (share.rows.stop - share.rows.start)
    of_crops = Share(tuple(crops * size for size in share.sizes), share.number)
    return (of_crops.gather(inputs[0], partial=True),)


def _rows_of_process(layer: nn.Module, inputs: tuple, outputs: Tensor) -> Any:
    """The rows of this process from the output of such a layer."""
    if (share := _normalising(layer)) is None:
        return None
    crops = len(outputs) // sum(share.sizes)
    return outputs[crops * share.rows.start : crops * share.rows.stop]


def run(work: Callable[..., Any], count: int, device: torch.device, title: str) -> None:
    """Run ``work(device)`` in ``count`` processes, each on its device; they form the group of
    ``core.processes``.

    title: the training, for messages. Raises the error of the first process that failed, UsageError
    where a process has no GPU, PipelineError where a process was ended from outside. The other
    processes are ended too.
    """
    gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index is not None or gpus < count):
        raise UsageError(
            f"{title}: train.processes {count} need a GPU each, and there are {gpus} for device "
            f"{device}; set --device cpu or train.processes"
        )
    errors = multiprocessing.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder, _threads(count) as threads:
        arguments = f"file://{folder}/meeting", count, threads, device.type, console.level()
        started = start_processes(_work, (*arguments, errors, work), count, join=False, start_method="spawn")
        try:
            while not started.join():
                pass
        except ProcessExitedException as exited:
            raise _cause(exited, errors, title) from exited
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
    console.tolerate_any_terminal()
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


def _cause(exited: ProcessExitedException, errors: SimpleQueue, title: str) -> Exception:
    """The error of the process that failed; the others only lost their partner."""
    reports: list[Exception] = []
    while not errors.empty():
        reports.append(errors.get())
    reason = f"process {exited.error_index + 1} failed with status {exited.exit_code}"
    if exited.signal_name:
        reason = f"process {exited.error_index + 1} was ended by {exited.signal_name}"
    else:
        for error in reports:
            if not isinstance(error, processes.Lost):
                return error
    return PipelineError(f"{title}: {reason}; run the same command again, it goes on after its last whole epoch")


@contextlib.contextmanager
def _threads(count: int) -> Iterator[int]:
    """Threads of each process, an even part of the threads of one. Libraries read OMP_NUM_THREADS
    when they are imported."""
    share, before = max(1, torch.get_num_threads() // count), dict(os.environ)
    # PYTHONSAFEPATH: a new process would import files of the working directory in place of
    # Python's, such as pickle.py.
    os.environ |= {"OMP_NUM_THREADS": str(share), "PYTHONSAFEPATH": "1"}
    try:
        yield share
    finally:
        for name in ("OMP_NUM_THREADS", "PYTHONSAFEPATH"):
            os.environ.pop(name)
            os.environ |= {name: before[name]} if name in before else {}
