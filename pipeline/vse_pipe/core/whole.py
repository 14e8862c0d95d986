"""Files and folders that appear whole or not at all, whatever ends their writer."""

import contextlib
import fcntl
import fnmatch
import glob
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from vse_pipe.core.disk import named
from vse_pipe.core.errors import PipelineError

_LOCK = "lock"
_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")
# Put anywhere by DVC and by desktops, and by writers that were killed.
_NOBODYS = ("*.gitignore", "*.DS_Store", ".*.tmp", ".*.tmp/*", "*/.*.tmp", "*/.*.tmp/*")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def whole_file(path: Path, size: int | None = None) -> Iterator[Path]:
    """Yield a path of the same name in a folder beside ``path``; on success it is synced and renamed, on failure removed.

    size: the bytes that it takes, for the message of a full disk. What writers of ``path`` left that were killed is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    left = list(path.parent.glob(f".{glob.escape(path.name)}.*.tmp"))
    for plain in left:  # by versions that wrote without a folder
        if _TEMPORARY.fullmatch(plain.name) and not plain.is_dir():
            plain.unlink(missing_ok=True)
    _sweep(left)
    folder = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    # A folder, since safetensors puts a file of its own beside the one it writes.
    temporary = folder / path.name
    with named(path, size, temporary), _living(folder):
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)


@contextlib.contextmanager
def _living(folder: Path) -> Iterator[None]:
    """``folder``, with a lock in it that the kernel gives back when this process ends, however it ends."""
    with _locked(folder):
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> TextIO:
    while True:
        folder.mkdir(exist_ok=True)
        try:
            lock = (folder / _LOCK).open("w")
        except FileNotFoundError:
            continue  # whoever sweeps took it away before it was locked
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock.fileno()).st_nlink:
            return lock
        lock.close()


def _sweep(found: Iterable[Path]) -> None:
    """Remove the folders of writers that were killed, never of a living one, nor of other programs."""
    for path in found:
        if not _TEMPORARY.fullmatch(path.name) or not path.is_dir() or path.is_symlink():
            continue
        try:
            with (path / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue
        except FileNotFoundError:
            with contextlib.suppress(OSError):  # not empty, and no lock in it: none of ours
                path.rmdir()


def tidy(out: Path) -> None:
    """Mend what a writer of the folder ``out`` left that was killed. Only for who holds its lock.

    Raises PipelineError where a file lies in the folder's place.
    """
    if out.exists() and not out.is_dir():
        raise PipelineError(f"{out}: a file lies in the place of a folder; move it away and run the same command again")
    # Stages write into their folder and those in it, no deeper; a folder that a user names may hold any number of others.
    inside = (path for folder in (out, partial(out)) for depth in ("", "*/") for path in folder.glob(f"{depth}.*.tmp"))
    _sweep([*out.parent.glob(f".{glob.escape(out.name)}.*.tmp"), *inside])
    if out.exists():
        shutil.rmtree(_replaced(out), ignore_errors=True)
    elif _replaced(out).exists():
        _replaced(out).replace(out)


def require_ours(out: Path, ours: Sequence[str]) -> None:
    """Raises PipelineError where the folder ``out``, which is to be replaced, holds what nobody here wrote.

    ours: patterns of the files that a stage writes, relative to ``out``; ``*`` stands for folders too.
    """
    patterns = (*ours, *_NOBODYS)
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    strange = [name for name in files if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if strange:
        more = f" (and {len(strange) - 1} more)" if len(strange) > 1 else ""
        raise PipelineError(
            f"{out / strange[0]}: not a file of this output{more}, which is to be replaced; move it elsewhere and run the "
            "same command again"
        )


def partial(out: Path) -> Path:
    """Where the folder ``out`` is built before it takes its place."""
    return out.with_name(out.name + ".partial")


def _replaced(out: Path) -> Path:
    return partial(partial(out))


@contextlib.contextmanager
def whole_folder(out: Path, ours: Sequence[str] = ("*",)) -> Iterator[Path]:
    """Yield an empty folder beside ``out`` that takes its place on success; on failure ``out`` stays as it was.

    ours: as for ``require_ours``.
    """
    tidy(out)
    require_ours(out, ours)
    building = partial(out)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        with named(out, None, building):
            yield building
            put(building, out, ours)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def put(building: Path, out: Path, ours: Sequence[str]) -> None:
    """``building`` takes the place of the folder ``out``. Killed in between, ``tidy`` brings ``out`` back.

    ours: as for ``require_ours``, which looks again: building may have taken hours.
    """
    require_ours(out, ours)
    for path in building.rglob("*"):
        _sync(path)
    if out.exists():
        out.replace(_replaced(out))
    building.replace(out)
    shutil.rmtree(_replaced(out), ignore_errors=True)
    _sync(out.parent)
