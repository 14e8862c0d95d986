"""Files are damaged and read in a process of their own, with a limit of time and of memory, and what became of it."""

import dataclasses
import hashlib
import os
import random
import re
import resource
import signal
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from PIL import Image

from vse_pipe.core.errors import PipelineError

SECONDS = 20
# Of address space beyond what the warm process has: what asks for more is refused by the kernel and not by the machine's end.
ROOM = 4 * 2**30
REFUSED, UNCHANGED, CHANGED, TRACEBACK, HANG = OUTCOMES = ("refused", "unchanged", "changed", "traceback", "hang")
LOG, TRACES = Path("log"), Path("traces")


@dataclasses.dataclass(frozen=True)
class Reader:
    """file: what is mutated, below the folder that holds every file; read: gives what it holds, however nested.

    digested: one of our own with a digest or checksum, so that a change that is accepted is a failure.
    """

    name: str
    file: Path
    read: Callable[[], object]
    digested: bool = False


def digest(value: object) -> str:
    """Of what a reader gives, by value and type."""
    found = hashlib.sha256()
    _feed(value, found.update)
    return found.hexdigest()


def _feed(value: object, update: Callable[[bytes], None]) -> None:
    update(type(value).__name__.encode())
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    if isinstance(value, np.ndarray):
        update(f"{value.dtype} {value.shape}".encode())
        update(repr(value.tolist()).encode() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes())
    elif isinstance(value, pa.Table):
        _feed([[(one.name, str(one.type)) for one in value.schema], value.to_pydict()], update)
    elif isinstance(value, pd.DataFrame):
        _feed(value.to_dict("list"), update)
    elif isinstance(value, Image.Image):
        _feed([value.size, value.mode, value.tobytes()], update)
    elif isinstance(value, dict):
        _feed(sorted(value.items(), key=lambda item: str(item[0])), update)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in sorted(value, key=str) if isinstance(value, set | frozenset) else value:
            _feed(one, update)
    elif dataclasses.is_dataclass(value):
        _feed(vars(value) if hasattr(value, "__dict__") else dataclasses.astuple(value), update)
    else:
        update(value if isinstance(value, bytes) else repr(value).encode())


def given(reader: Reader, original: bytes, seed: int, number: int) -> bytes:
    return mutated(original, random.Random(f"{seed} {reader.name} {number}"))


def outcome(reader: Reader, content: bytes, known: str) -> str:
    """Read the file with ``content`` in its place. known: the digest of what the original holds."""
    reader.file.write_bytes(content)
    try:
        return UNCHANGED if digest(reader.read()) == known else CHANGED
    except PipelineError:
        return REFUSED


def batch(reader: Reader, original: bytes, seed: int, numbers: Sequence[int], known: str) -> None:
    """The inputs ``numbers``, one after the other; a byte of LOG for each, and the traceback of the first that has one."""
    with LOG.open("wb", buffering=0) as log:
        for number in numbers:
            signal.alarm(SECONDS)
            try:
                found = outcome(reader, given(reader, original, seed, number), known)
            except Exception:
                found = TRACEBACK
                TRACES.joinpath(str(number)).write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
            log.write(bytes([OUTCOMES.index(found)]))


def forked(folder: Path, work: Callable[[], object], seconds: int = SECONDS) -> int:
    """Start ``work`` in ``folder``, within the limits; the child's id. What it says is not shown."""
    if pid := os.fork():
        return pid
    status = 1
    try:
        os.chdir(folder)
        TRACES.mkdir(exist_ok=True)
        with Path(os.devnull).open("w") as quiet:
            os.dup2(quiet.fileno(), 1)
            os.dup2(quiet.fileno(), 2)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Not caught by Python: a loop inside of a library ends as well.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        work()
        status = 0
    except BaseException:
        TRACES.joinpath("child").write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
    finally:
        os._exit(status)


def ended(status: int) -> str:
    """What a child that did not come to its end by itself died of."""
    return HANG if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM else TRACEBACK


# What can befall a file: bits that flip, an end that is missing, a header that says other numbers, content that grew.
_ENDS = 512
_NUMBERS = (0, 1, 127, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
_WORDS = (*b' -1 0 1e999 NaN null "" [] {} ../../x \xff\xfe ( \''.split(b" "), b"9" * 30)
_TOKEN = re.compile(rb"[A-Za-z0-9_.<|+-]{1,64}")


def mutated(content: bytes, drawn: random.Random) -> bytes:
    """One to three changes of any kind; the same for the same state of ``drawn``."""
    for _ in range(drawn.choice((1, 1, 1, 2, 3))):
        content = drawn.choice((_flip, _truncate, _number, _word, _grow))(content, drawn)
    return content


def _place(content: bytes, drawn: random.Random) -> int:
    """Anywhere, but every other time within the ends, where formats keep what they say of themselves."""
    end = max(1, len(content))
    near = drawn.randrange(min(_ENDS, end))
    return drawn.choice((drawn.randrange(end), drawn.randrange(end), near, end - 1 - near))


def _flip(content: bytes, drawn: random.Random) -> bytes:
    if not content:
        return content
    found = bytearray(content)
    for _ in range(drawn.choice((1, 1, 4, 32))):
        found[_place(content, drawn)] ^= 1 << drawn.randrange(8)
    return bytes(found)


def _truncate(content: bytes, drawn: random.Random) -> bytes:
    at = _place(content, drawn)
    return content[at:] if drawn.random() < 0.2 else content[:at]


def _number(content: bytes, drawn: random.Random) -> bytes:
    """A number in binary, of any width, overwritten by one at the edge of what it can be."""
    width = drawn.choice((1, 2, 4, 8))
    number = drawn.choice(_NUMBERS) % 2 ** (8 * width)
    at = _place(content, drawn)
    return content[:at] + number.to_bytes(width, drawn.choice(("little", "big"))) + content[at + width :]


def _word(content: bytes, drawn: random.Random) -> bytes:
    """A word or a number in text replaced by another of the file, or by one that nobody expects there."""
    start = max(0, _place(content, drawn) - 64)
    found = list(_TOKEN.finditer(content, start, start + _ENDS))
    if not found:
        return _flip(content, drawn)
    one, other = drawn.choice(found), drawn.choice(found)
    return content[: one.start()] + drawn.choice((*_WORDS, other.group())) + content[one.end() :]


def _grow(content: bytes, drawn: random.Random) -> bytes:
    at, until = sorted((_place(content, drawn), _place(content, drawn)))
    again = bytes([drawn.choice(b'[{(\n\t,"\\ ')]) * drawn.choice((1, 100_000))
    random = drawn.randbytes(drawn.randrange(1, 64))
    more = drawn.choice((random, content[at:until], bytes(drawn.choice((8, 4096))), again))
    place = drawn.choice((at, len(content)))
    return content[:place] + more + content[place:]
