"""A reader of one kind of file in a process of its own, with a limit of time and of memory, and damaged files for it."""

import dataclasses
import os
import signal
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import joblib
import numpy as np
import pyarrow as pa
import torch

from tests import bombs
from tests.mutants import mutants
from vse_pipe.core.errors import PipelineError

SECONDS = 20
# Of address space beyond what the warm process has: the kernel refuses what asks for more.
ROOM = 4 * 2**30
MOST_MB = 1024
_INPUT = Path("input")
# Formats keep what they say of themselves near their ends.
_ENDS = 512


@dataclasses.dataclass(frozen=True)
class Reader:
    """file: what is damaged, below the folder that holds every file; read: gives what it holds, however nested.

    digested: one of our own with a digest or checksum, so that a change that is accepted is a failure.
    """

    name: str
    file: Path
    read: Callable[[], object]
    digested: bool = False


def fault(reader: Reader, rounds: int, seed: int) -> str:
    """What is wrong with the reader, empty if nothing is: it ends in another exception than the package's own, hangs,
    takes too much memory, or accepts a change that a digest should show."""
    original = reader.file.read_bytes()
    problem, megabytes = in_child(lambda: _examine(reader, original, rounds, seed))
    reader.file.write_bytes(original)
    if not problem and megabytes > MOST_MB:
        problem = f"{megabytes:.0f} MB"
    return problem and f"input {_INPUT.read_text()}: {problem}"


def _examine(reader: Reader, original: bytes, rounds: int, seed: int) -> None:
    known = digest(reader.read())
    for number, content in enumerate(_damaged(original, rounds, seed)):
        signal.alarm(SECONDS)
        _INPUT.write_text(str(number))
        reader.file.write_bytes(content)
        try:
            is_changed = digest(reader.read()) != known
        except PipelineError:
            continue
        assert not (is_changed and reader.digested), "a change was accepted"


def _damaged(original: bytes, rounds: int, seed: int) -> Iterator[bytes]:
    head, tail = min(_ENDS, len(original)), max(0, len(original) - _ENDS)
    anywhere = mutants(original, rounds // 2, seed=seed)
    return chain(
        anywhere, mutants(original, rounds // 4, 0, head, seed), mutants(original, rounds // 4, tail, None, seed)
    )


def in_child(work: Callable[[], object], seconds: int = SECONDS) -> tuple[str, float]:
    """What went wrong in ``work``, empty for nothing, and the MiB it took. No library starts a
    thread in this process."""
    _INPUT.write_text("none")

    def limited() -> None:
        with Path(os.devnull).open("w") as quiet:
            os.dup2(quiet.fileno(), 1)
            os.dup2(quiet.fileno(), 2)
        # Not caught by Python: a loop inside of a library ends as well.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        work()

    ended, peak = bombs.in_child(limited, ROOM)
    return "" if ended == "done" else ended, peak


def digest(value: object) -> str:
    """Of what a reader gives, by value and type."""
    return joblib.hash(_plain(value))


def _plain(value: object) -> object:
    """The value without what a memory map, a tensor or a dataclass adds to its content."""
    if isinstance(value, torch.Tensor):
        return value.detach().contiguous().reshape(-1).view(torch.uint8).numpy(), str(value.dtype), tuple(value.shape)
    if isinstance(value, pa.Table):
        return [(field.name, str(field.type)) for field in value.schema], value.to_pydict()
    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return _plain(vars(value)) if dataclasses.is_dataclass(value) and hasattr(value, "__dict__") else value
