"""Files that are read several times, by blocks or by columns: written anew in between, they would be mixed."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vse_pipe.core.errors import IntegrityError

State = tuple[int, int, int]


@dataclass
class _Reading:
    """out: the output of whoever reads, who may write it anew; seen: other files as they were when they were first read."""

    out: Path
    seen: dict[Path, State] = field(default_factory=dict)


_open: list[_Reading] = []


@contextlib.contextmanager
def required(out: Path) -> Iterator[None]:
    """Within, what ``same`` is asked of stays as it was the first time, but for what lies in ``out``."""
    _open.append(_Reading(out.resolve()))
    try:
        yield
    finally:
        _open.pop()


def same(path: Path) -> Path:
    """``path``, about to be read. Raises IntegrityError where it is another file than when it was first read, or was changed."""
    if _open and not (where := path.resolve()).is_relative_to(_open[-1].out):
        require(path, _open[-1].seen.setdefault(where, state(path)))
    return path


def require(path: Path, before: State) -> None:
    """Raises IntegrityError unless ``path`` is the file whose ``state`` was ``before``, and was not changed since."""
    if not path.exists():
        raise IntegrityError(f"{path}: removed while it was read; make it again, then run the same command again")
    if state(path) != before:
        raise IntegrityError(f"{path}: written anew while it was read; run the same command again")


@contextlib.contextmanager
def throughout(path: Path) -> Iterator[None]:
    """What is read of ``path`` within is of one file, or of a pipe, which changes with every byte. Raises as ``require``."""
    before = state(path) if path.is_file() else None
    yield
    if before is not None:
        require(path, before)


def state(path: Path) -> State:
    """What tells a file from one that takes its place, and from itself before it was written to."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns
