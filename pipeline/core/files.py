"""Files that appear whole or not at all, and their digests."""

import contextlib
import errno
import fcntl
import fnmatch
import glob
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TextIO, overload

from pipeline.core.errors import InputError, MissingResource, PipelineError

if TYPE_CHECKING:
    import numpy as np
    from pandas import DataFrame  # half a second that most commands do without

_LOCK = "lock"
# Put anywhere by DVC and by desktops, and by writers that were killed.
_NOBODYS = ("*.gitignore", "*.DS_Store", "*.tmp", "*.tmp/*")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def named(path: Path, size: int | None = None, written_at: Path | None = None) -> Iterator[None]:
    """A full disk does not say which file it was: an OSError without a name, or with one at or below ``written_at``, gets
    that of ``path``, and says what there is room for. size: bytes that the file takes, if they are known."""
    try:
        yield
    except OSError as error:
        of = written_at if error.filename is None else Path(str(error.filename))
        if error.filename is None or of == written_at:
            error.strerror = _of_a_full_disk(error, path, size)
        if of is None or (written_at is not None and of.is_relative_to(written_at)):
            error.filename = str(path / of.relative_to(written_at) if of and written_at else path)
        raise


def _of_a_full_disk(error: OSError, path: Path, size: int | None) -> str:
    """What ``error`` says, with the room that it lacks. Arrow and safetensors hide the number in their text, and numpy has
    none."""
    hidden = re.search(r"(?:errno|os error) (\d+)", str(error), re.IGNORECASE)
    number = error.errno or (int(hidden[1]) if hidden else errno.ENOSPC if "requested and" in str(error) else 0)
    if number not in _FULL:
        return error.strerror or str(error)
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    room = shutil.disk_usage(next(folder for folder in path.absolute().parents if folder.exists())).free
    room = room if largest == resource.RLIM_INFINITY else min(room, largest)
    needed = "more than that" if size is None else _amount(size)
    return f"{os.strerror(number)}: there is room for {_amount(room)}, and it needs {needed}"


def _amount(size: int) -> str:
    units = ((9, "GB"), (6, "MB"), (3, "kB"), (0, "bytes"))
    return next(f"{size / 10**digits:.1f} {unit}" for digits, unit in units if size >= 10**digits or not digits)


@contextlib.contextmanager
def whole_file(path: Path, size: int | None = None) -> Iterator[Path]:
    """Yield a path of the same name in a folder beside ``path``; on success it is synced and renamed, on failure removed.

    size: the bytes that it takes, for the message of a full disk. What writers of ``path`` left that were killed is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent.glob(f".{glob.escape(path.name)}.*.tmp"))
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
    """Remove what writers left that were killed, never what a living one writes."""
    for path in found:
        if not re.fullmatch(r"\..+\.\d+\.tmp", path.name):
            continue
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)  # by versions that wrote without a folder
            continue
        with contextlib.suppress(BlockingIOError, FileNotFoundError), (path / _LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)


def tidy(out: Path) -> None:
    """Mend what a writer of the folder ``out`` left that was killed. Only for who holds its lock.

    Raises PipelineError where a file lies in the folder's place.
    """
    if out.exists() and not out.is_dir():
        raise PipelineError(f"{out}: a file lies in the place of a folder; move it away and run the same command again")
    inside = (path for folder in (out, partial(out)) for path in folder.rglob(".*.tmp"))
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
    return out.with_name(out.name + ".old.partial")


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
            put(building, out)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def put(building: Path, out: Path) -> None:
    """``building`` takes the place of the folder ``out``. Killed in between, ``tidy`` brings ``out`` back."""
    for path in building.rglob("*"):
        _sync(path)
    if out.exists():
        out.replace(_replaced(out))
    building.replace(out)
    shutil.rmtree(_replaced(out), ignore_errors=True)
    _sync(out.parent)


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all."""
    content = text.encode()
    with whole_file(path, len(content)) as temporary:
        temporary.write_bytes(content)


def write_array(path: Path, array: "np.ndarray") -> None:
    """As .npy, whole or not at all."""
    import numpy as np

    with whole_file(path, array.nbytes) as temporary, temporary.open("wb") as file:
        # To a file of the system numpy writes by itself, and a few kilobytes that a full disk does not take go unnoticed.
        np.lib.format.write_array(SimpleNamespace(write=file.write), array, allow_pickle=False)


def write_together(contents: dict[Path, str]) -> None:
    """Texts that change together: all are complete on the disk before the first takes its place."""
    with contextlib.ExitStack() as stack:
        for path, text in contents.items():
            temporary = stack.enter_context(whole_file(path))
            temporary.write_text(text, encoding="utf-8")
            _sync(temporary)


def csv_text(table: "DataFrame") -> str:
    """Without the index, lines ended by a line feed everywhere."""
    return table.to_csv(index=False, lineterminator="\n")


def write_csv(path: Path, table: "DataFrame") -> None:
    write_text(path, csv_text(table))


def json_text(content: object) -> str:
    """Sorted keys, indented, final newline; NaN and infinities are refused (ValueError)."""
    return json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def write_json(path: Path, content: object) -> None:
    """As ``json_text``, whole or not at all."""
    write_text(path, json_text(content))


def save_tensors(path: Path, tensors: dict, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file of torch tensors or of numpy arrays, contiguous, whole or not at all.

    metadata: one key; several would come in an order that changes from file to file.
    Raises PipelineError with the reason when it cannot be written for another reason than the disk: safetensors has an
    error of its own for everything.
    """
    import numpy as np
    from safetensors import SafetensorError

    of_numpy = all(isinstance(tensor, np.ndarray) for tensor in tensors.values())
    library = importlib.import_module("safetensors.numpy" if of_numpy else "safetensors.torch")
    with whole_file(path, sum(tensor.nbytes for tensor in tensors.values())) as temporary:
        try:
            library.save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:
            if "os error" in str(error):
                raise OSError(str(error)) from error
            raise PipelineError(f"{path}: {error}") from error


@overload
def read_json(path: Path) -> dict: ...


@overload
def read_json(path: Path, kind: type[list]) -> list: ...


def read_json(path: Path, kind: type[dict] | type[list] = dict) -> dict | list:
    """kind: what the document is, ``dict`` or ``list``. Raises MissingResource without the file, InputError when it is not that."""
    try:
        found = json.loads(require(path).read_text(encoding="utf-8"))
    # ValueError: no JSON, no UTF-8, or an integer of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON document ({error})") from error
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise InputError(f"{path}: the JSON document is a {type(found).__name__}, expected {wanted}")
    return found


def require(path: Path, made_by: str = "") -> Path:
    """``path`` if it exists. Raises InputError that names the command which makes it, MissingResource where none does."""
    if path.exists():
        return path
    if made_by:
        raise InputError(f"{path} does not exist; make it with `{made_by}` or `dvc repro`")
    raise MissingResource(f"{path} does not exist")
