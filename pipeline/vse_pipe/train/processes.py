"""Several processes that train one model: random numbers and normalisation of the whole batch, start and end.

Each process encodes some rows of a batch. It draws the random numbers of all rows and uses those of its rows, so dropout does
not depend on the number of processes; batch normalisation gathers the rows. Encoders are written for one process.
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
from contextvars import ContextVar
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.overrides import TorchFunctionMode

from vse_pipe.core import console, processes
from vse_pipe.core.errors import PipelineError, UsageError, out_of_memory, shortage
from vse_pipe.core.locks import die_with_parent
from vse_pipe.core.processes import Share

_share: ContextVar[Share | None] = ContextVar("share", default=None)


@contextlib.contextmanager
def rows(share: Share) -> Iterator[None]:
    """Context of a forward pass on the rows that ``share`` gives to this process."""
    if len(share.sizes) == 1:
        yield
        return
    token = _share.set(share)
    try:
        with _WholeBatch():
            yield
    finally:
        _share.reset(token)


def count(vectors: Tensor) -> int:
    """Rows of the whole batch; ``vectors`` are the rows of this process."""
    share = _share.get()
    return len(vectors) if share is None else sum(share.sizes)


def token_dropout(dropout: nn.Dropout, packed: PackedSequence, data: Tensor) -> Tensor:
    """``dropout`` of (tokens, dim) data in the order of ``packed``, which differs from the order in the whole batch."""
    share = _share.get()
    if share is None or not dropout.training or dropout.p == 0:
        return dropout(data)
    marks = PackedSequence(torch.zeros(len(data), device=data.device), *packed[1:])
    lengths = pad_packed_sequence(marks, batch_first=True)[1]
    all_lengths = share.gather(lengths)
    tokens = torch.arange(len(all_lengths) * int(all_lengths.max())).view(len(all_lengths), -1)
    order, places = (
        pack_padded_sequence(tokens[chosen], size, batch_first=True, enforce_sorted=False).data
        for chosen, size in ((slice(None), all_lengths), (share.rows, lengths))
    )
    place = torch.empty(tokens.numel(), dtype=torch.int64).scatter_(0, order, torch.arange(len(order)))
    token = _share.set(None)
    try:
        mask = dropout(data.new_ones(len(order), data.shape[1]))
    finally:
        _share.reset(token)
    return data * mask[place[places].to(data.device)]


class _WholeBatch(TorchFunctionMode):
    """Replaces functions that draw a number for each row, or use all rows."""

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        replacement, share = _REPLACEMENTS.get(func), _share.get()
        if replacement is None or share is None:
            return func(*args, **(kwargs or {}))
        return replacement(share, *args, **(kwargs or {}))


def _spread(share: Share, rows: int, draw: Callable[[int], Tensor]) -> Tensor:
    """The result of ``draw`` for the whole batch, cut to the rows of this process.

    rows: rows of this process, a multiple of its share where an image has several crops. Raises UsageError where they are no
    multiple, because the meaning of the draw is then unknown.
    """
    span = share.rows
    crops, left = divmod(rows, span.stop - span.start)
    if left:
        raise UsageError(
            f"a layer draws random numbers for {rows} rows where {span.stop - span.start} are encoded, which several processes cannot "
            "do as one does; set train.processes to 1"
        )
    return draw(crops * sum(share.sizes))[crops * span.start : crops * span.stop]


def _rand(share: Share, size: torch.Size, **options: Any) -> Tensor:
    return _spread(share, size[0], lambda rows: torch.rand(rows, *size[1:], **options))


def _rand_like(share: Share, like: Tensor) -> Tensor:
    return _spread(share, len(like), lambda rows: torch.rand_like(like.new_empty(rows, *like.shape[1:])))


def _dropout(share: Share, inputs: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or p == 0:
        return inputs
    return inputs * _spread(
        share, len(inputs), lambda rows: functional.dropout(inputs.new_ones(rows, *inputs.shape[1:]), p)
    )


def _bernoulli(share: Share, inputs: Tensor, *p: Any, **options: Any) -> Tensor:
    """In place, for layers that drop whole branches: stochastic_depth of torchvision, drop_path of timm."""
    return inputs.copy_(
        _spread(share, len(inputs), lambda rows: inputs.new_empty(rows, *inputs.shape[1:]).bernoulli_(*p, **options))
    )


def _batch_norm(share: Share, inputs: Tensor, *running: Any, **options: Any) -> Tensor:
    if not options["training"]:
        return functional.batch_norm(inputs, *running, **options)
    rows = share.rows
    crops = len(inputs) // (rows.stop - rows.start)
    gathered = Share(tuple(crops * size for size in share.sizes), share.number).gather(inputs, partial=True)
    return functional.batch_norm(gathered, *running, **options)[crops * rows.start : crops * rows.stop]


_REPLACEMENTS: dict[Callable, Callable[..., Tensor]] = {
    torch.rand: _rand,
    torch.rand_like: _rand_like,
    functional.dropout: _dropout,
    Tensor.bernoulli_: _bernoulli,
    functional.batch_norm: _batch_norm,
}


# The processes of one training are started here on one machine, or by ``torchrun`` on several machines.
#
# The parent process waits for all, keeps the lock and reports errors; no process outlives it. The processes meet in a file,
# so trainings that run at the same time need no ports.

# Long, because processes wait for a share of the whole data set. The parent notices a process that has ended.
_TIMEOUT = timedelta(hours=12)
_TO_END_S = 10.0
_GOES_ON = "run the same command again, it goes on after its last whole epoch"


def run(work: Callable[..., Any], arguments: tuple, count: int, device: torch.device, title: str) -> None:
    """Run ``work(*arguments, device)`` in ``count`` processes, each on its device; they form the group of ``core.processes``.

    title: the training, for messages. Raises the error of the first process that failed, UsageError where a process has no
    GPU, PipelineError where a process was ended from outside. The other processes are ended too.
    """
    if device.type == "cuda" and (device.index is not None or torch.cuda.device_count() < count):
        raise UsageError(
            f"{title}: train.processes {count} need a GPU each, and there are {torch.cuda.device_count()} for device {device}; set --device cpu or train.processes"
        )
    context = multiprocessing.get_context("spawn")
    errors = [context.Pipe(duplex=False) for _ in range(count)]
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder, _threads(count) as threads:
        settings = f"file://{folder}/meeting", count, threads, device.type, console.level()
        started = [
            context.Process(target=_work, args=(place, *settings, end, work, arguments))
            for place, (_, end) in enumerate(errors)
        ]
        try:
            for process in started:
                process.start()
            while alive := [process.sentinel for process in started if process.exitcode is None]:
                wait(alive)
                if any(statuses := [process.exitcode for process in started]):
                    raise _cause(statuses, [end.recv() for end, _ in errors if end.poll()], title)
        finally:
            _end(started)


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
    errors: Connection,
    work: Callable,
    arguments: tuple,
) -> None:
    """The main function of a process: ``work``, and a report to the parent where it fails."""
    die_with_parent(signal.SIGKILL)  # the parent holds the lock
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends all processes
    console.set_level(level)
    console.tolerate_any_terminal()
    console.outlive_readers()
    torch.set_num_threads(threads)
    os.environ["LOCAL_RANK"] = str(number)
    if sys.platform == "linux":  # one machine, so its host name need not resolve
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
    # Both backends, because some tensors stay on the CPU.
    backend = "cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo"
    distributed.init_process_group(backend, init_method=place, rank=number, world_size=count, timeout=_TIMEOUT)
    torch.set_flush_denormal(True)
    if number:
        console.silence()


def _plain(error: Exception) -> PipelineError | None:
    """The error as the command line reports it; None for a mistake of the program."""
    if isinstance(error, PipelineError):
        return error
    if out_of_memory(error):
        return PipelineError(shortage(error))
    if isinstance(error, OSError):
        return PipelineError(f"{error.filename or 'input/output'}: {error.strerror or error}")
    return None


def _cause(statuses: list[int | None], errors: list[PipelineError], title: str) -> PipelineError:
    """The error of the process that failed first; the later ones only lost their partner."""
    for place, status in enumerate(statuses):
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            return PipelineError(f"{title}: process {place + 1} of {len(statuses)} was ended by {name}; {_GOES_ON}")
    causes = [error for error in errors if not isinstance(error, processes.Lost)]
    if errors:
        return causes[0] if causes else PipelineError(f"{title}: {errors[0]}; {_GOES_ON}")
    place, status = next((place, status) for place, status in enumerate(statuses) if status)
    return PipelineError(f"{title}: process {place + 1} of {len(statuses)} failed with status {status}; {_GOES_ON}")


def _end(started: list) -> None:
    """End all processes and wait for them."""
    alive = [process for process in started if process.pid is not None]
    for process in alive:
        process.terminate()
    until = time.monotonic() + _TO_END_S
    for process in alive:
        process.join(max(0.0, until - time.monotonic()))
    for process in alive:
        if process.exitcode is None:
            process.kill()
            process.join()


@contextlib.contextmanager
def _threads(count: int) -> Iterator[int]:
    """Threads of each process, an even part of the threads of one. Libraries read OMP_NUM_THREADS when they are imported."""
    share, before = max(1, torch.get_num_threads() // count), dict(os.environ)
    # PYTHONSAFEPATH: a new process would import files of the working directory in place of Python's, such as pickle.py.
    os.environ |= {"OMP_NUM_THREADS": str(share), "PYTHONSAFEPATH": "1"}
    try:
        yield share
    finally:
        for name in ("OMP_NUM_THREADS", "PYTHONSAFEPATH"):
            os.environ.pop(name)
            os.environ |= {name: before[name]} if name in before else {}
