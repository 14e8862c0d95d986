"""What an encoder draws or normalises for the whole batch, where a process encodes some of its rows.

Each process draws the numbers of all rows, as one process would, and keeps those of its own, so dropout leaves out the same
whatever their number; batch normalisation gathers the rows. Encoders are written for one process and know nothing of it.
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
    """For the forward pass of the rows of ``share``: those of this process."""
    if len(share.sizes) == 1:
        yield
        return
    held = _share.set(share)
    try:
        with _OfTheWhole():
            yield
    finally:
        _share.reset(held)


def count(vectors: Tensor) -> int:
    """Rows of the whole batch of which ``vectors`` are some."""
    share = _share.get()
    return len(vectors) if share is None else sum(share.sizes)


def of_tokens(dropout: nn.Dropout, packed: PackedSequence, data: Tensor) -> Tensor:
    """``dropout`` of (tokens, dim) data in the order of ``packed``, which is another one in the whole batch."""
    share = _share.get()
    if share is None or not dropout.training or dropout.p == 0:
        return dropout(data)
    marks = PackedSequence(torch.zeros(len(data), device=data.device), *packed[1:])
    lengths = pad_packed_sequence(marks, batch_first=True)[1]
    everybody = share.gather(lengths)
    tokens = torch.arange(len(everybody) * int(everybody.max())).view(len(everybody), -1)
    placed, own = (
        pack_padded_sequence(tokens[chosen], size, batch_first=True, enforce_sorted=False).data
        for chosen, size in ((slice(None), everybody), (share.rows, lengths))
    )
    place = torch.empty(tokens.numel(), dtype=torch.int64).scatter_(0, placed, torch.arange(len(placed)))
    held = _share.set(None)
    try:
        kept = dropout(data.new_ones(len(placed), data.shape[1]))
    finally:
        _share.reset(held)
    return data * kept[place[own].to(data.device)]


class _OfTheWhole(TorchFunctionMode):
    """Takes the place of functions that draw a number for each row, or look at all rows."""

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        instead, share = _INSTEAD.get(func), _share.get()
        if instead is None or share is None:
            return func(*args, **(kwargs or {}))
        return instead(share, *args, **(kwargs or {}))


def _spread(share: Share, rows: int, draw: Callable[[int], Tensor]) -> Tensor:
    """What ``draw`` gives for the whole batch, cut to the rows of this process. rows: how many these are here, a multiple of
    those of the share where an image has several crops. Raises UsageError where they are none: it is not known what is drawn."""
    own = share.rows
    each, left = divmod(rows, own.stop - own.start)
    if left:
        raise UsageError(
            f"a layer draws random numbers for {rows} rows where {own.stop - own.start} are encoded, which several processes cannot "
            "do as one does; set train.processes to 1"
        )
    return draw(each * sum(share.sizes))[each * own.start : each * own.stop]


def _rand(share: Share, size: torch.Size, **options: Any) -> Tensor:
    return _spread(share, size[0], lambda rows: torch.rand(rows, *size[1:], **options))


def _rand_like(share: Share, like: Tensor) -> Tensor:
    return _spread(share, len(like), lambda rows: torch.rand_like(like.new_empty(rows, *like.shape[1:])))


def _dropout(share: Share, given: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if not training or p == 0:
        return given
    return given * _spread(
        share, len(given), lambda rows: functional.dropout(given.new_ones(rows, *given.shape[1:]), p)
    )


def _bernoulli(share: Share, given: Tensor, *p: Any, **options: Any) -> Tensor:
    """In place, as layers that leave out whole branches draw: stochastic_depth of torchvision, drop_path of timm."""
    return given.copy_(
        _spread(share, len(given), lambda rows: given.new_empty(rows, *given.shape[1:]).bernoulli_(*p, **options))
    )


def _batch_norm(share: Share, given: Tensor, *running: Any, **options: Any) -> Tensor:
    if not options["training"]:
        return functional.batch_norm(given, *running, **options)
    own = share.rows
    each = len(given) // (own.stop - own.start)
    whole = Share(tuple(each * size for size in share.sizes), share.number).gather(given, partial=True)
    return functional.batch_norm(whole, *running, **options)[each * own.start : each * own.stop]


_INSTEAD: dict[Callable, Callable[..., Tensor]] = {
    torch.rand: _rand,
    torch.rand_like: _rand_like,
    functional.dropout: _dropout,
    Tensor.bernoulli_: _bernoulli,
    functional.batch_norm: _batch_norm,
}


# The processes of one training: started here on one machine, or by ``torchrun`` on several.
#
# One that waits for all keeps the lock and says what went wrong; none outlives it. They meet in a file, so that trainings side
# by side need no ports of their own.

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
