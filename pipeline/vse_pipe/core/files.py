"""Files and folders that appear whole or not at all, names that stay below a root, and JSON.

``s3://bucket/shards`` is a path whose first part is ``s3:``, so that code can join names to any folder. ``core.remote``
reads it.
"""

import contextlib
import fcntl
import fnmatch
import glob
import hashlib
import importlib
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TextIO, overload

from vse_pipe.core.errors import InputError, PipelineError, UsageError, disk_errors_named

if TYPE_CHECKING:
    import numpy as np
    from pandas import DataFrame


_PROTOCOL = re.compile(r"[a-z][a-z0-9+.-]+:")


def is_remote(path: Path) -> bool:
    return bool(path.parts) and _PROTOCOL.fullmatch(path.parts[0]) is not None


def url(path: Path) -> str:
    """The URL of a remote path, or the local path as text. ``Path(url(path))`` is ``path``."""
    if not is_remote(path):
        return str(path)
    return f"{path.parts[0]}//{'/'.join(path.parts[1:])}"


def place(source: str) -> Path:
    """The path of a source in params.yaml; ``file:///folder`` is that folder. Raises as ``refuse_secrets``."""
    refuse_secrets(source)
    return Path(re.sub("^file://(?=/)", "", source))


def refuse_secrets(source: str) -> None:
    """Raises UsageError for a URL with a user, a password or a query, which would be written to images.parquet and
    printed."""
    if re.match(rf"{_PROTOCOL.pattern}/", source, re.IGNORECASE) and re.search(r"[@?#]", source):
        raise UsageError(
            "source: a URL of object storage names a bucket and a folder, with no user, password or query in it; credentials "
            "belong in environment variables such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def inside(root: Path, name: str, where: str) -> Path:
    """``root / name``, refused where the name leaves ``root``: absolute, or with ``..``. Links below ``root`` are the
    user's own and may lead anywhere.

    where: the file and row that named it, for the message. Raises InputError.
    """
    path, parts = root / name, name.split("/")
    if ".." in parts or "\0" in name or Path(name).is_absolute() or (is_remote(root) and "" in parts):
        raise InputError(
            f"{where}: file {name!r} lies outside its root {url(root)}; names must stay below it, without '..'"
        )
    try:
        os.fsencode(name)
    except UnicodeEncodeError as error:  # half a surrogate pair
        raise InputError(f"{where}: file {name!r} names no file ({error})") from error
    return path


def walk(
    root: Path, left_out: Callable[[str, str], object] = lambda path, reason: None
) -> Iterator[tuple[str, os.DirEntry]]:
    """(name below ``root``, entry) of every file in it and its folders, without hidden ones. Links to folders are
    followed last, each folder once. Names are strings, because there may be a million.

    left_out: called with the path of a folder that is not read, and the reason.
    """
    folders, links, seen = deque([("", False)]), deque[str](), set()
    while folders or links:
        if not folders:
            links = deque(sorted(links))
        below, is_linked = folders.popleft() if folders else (links.popleft(), True)
        folder = os.path.join(root, below[:-1]) if below else str(root)  # noqa: PTH118 (a third of the time of a Path)
        try:
            status = os.stat(folder)  # noqa: PTH116
            if is_linked and (status.st_dev, status.st_ino) in seen:
                left_out(folder, "a link to a folder that is read already")
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as listed:
                entries = [entry for entry in listed if not entry.name.startswith(".")]
        except OSError as error:
            left_out(folder, f"the folder cannot be read ({error.strerror})")
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append((f"{below}{entry.name}/", is_linked))
            elif entry.is_symlink() and os.path.isdir(entry):  # noqa: PTH112 (entry.is_dir raises of loops)
                links.append(f"{below}{entry.name}/")
            else:
                yield below + entry.name, entry


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def may_replace(path: Path, mark: bytes) -> bool:
    """Whether ``path`` is free, or a regular file with ``mark`` in its first 1000 bytes, which an earlier call wrote."""
    try:
        if not path.is_file():
            return not path.exists()
        with path.open("rb") as file:
            return mark in file.read(1000)
    except OSError:
        return False


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all."""
    content = text.encode()
    with whole_file(path, len(content)) as temporary:
        temporary.write_bytes(content)


def write_array(path: Path, array: "np.ndarray") -> None:
    """As .npy, whole or not at all."""
    import numpy as np

    with whole_file(path, array.nbytes) as temporary, temporary.open("wb") as file:
        # To a file of the system numpy writes by itself, and a few kilobytes that a full disk does not take go
        # unnoticed.
        np.lib.format.write_array(SimpleNamespace(write=file.write), array, allow_pickle=False)


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

    metadata: one key; the order of several keys would change from file to file. Raises OSError for the disk,
    PipelineError for any other reason; safetensors has one error for both.
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
    """The document, of type ``kind``. Raises InputError when the file is missing or holds anything else."""
    try:
        document = json.loads(require(path).read_text(encoding="utf-8"))
    # ValueError: no JSON, no UTF-8, or an integer of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON document ({error})") from error
    if not isinstance(document, kind):
        expected = "an object" if kind is dict else "a list"
        raise InputError(f"{path}: the JSON document is a {type(document).__name__}, expected {expected}")
    return document


def require(path: Path, made_by: str = "") -> Path:
    """``path`` if it exists. Raises InputError that names the command which makes it."""
    if not path.exists():
        advice = f"; make it with `{made_by}` or `dvc repro`" if made_by else ""
        raise InputError(f"{path} does not exist{advice}")
    return path


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
    """Yield a path of the same name in a folder beside ``path``; on success it is synced and renamed, on failure
    removed.

    size: the bytes that it takes, for the message of a full disk. What writers of ``path`` left that were killed is
    removed.
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
    with disk_errors_named(path, size, temporary), _living(folder):
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


def _sweep(paths: Iterable[Path]) -> None:
    """Removes the folders of killed writers. Folders of living writers and of other programs stay."""
    for path in paths:
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
    """Repairs the folder ``out`` after a killed writer. The caller must hold its lock.

    Raises PipelineError where a file has the folder's name.
    """
    if out.exists() and not out.is_dir():
        raise PipelineError(f"{out}: a file lies in the place of a folder; move it away and run the same command again")
    # Stages write into their folder and those in it, no deeper; a folder that a user names may hold any number of
    # others.
    inside = (path for folder in (out, partial(out)) for depth in ("", "*/") for path in folder.glob(f"{depth}.*.tmp"))
    _sweep([*out.parent.glob(f".{glob.escape(out.name)}.*.tmp"), *inside])
    if out.exists():
        shutil.rmtree(_replaced(out), ignore_errors=True)
    elif _replaced(out).exists():
        _replaced(out).replace(out)


def require_ours(out: Path, ours: Sequence[str]) -> None:
    """Raises PipelineError where the folder ``out``, which will be replaced, holds a file that no stage wrote.

    ours: patterns of the files that a stage writes, relative to ``out``; ``*`` stands for folders too.
    """
    patterns = (*ours, *_NOBODYS)
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir())
    foreign = [name for name in files if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if foreign:
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise PipelineError(
            f"{out / foreign[0]}: not a file of this output{more}, which is to be replaced; move it elsewhere and run the same command again"
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
        with disk_errors_named(out, None, building):
            yield building
            replace_folder(building, out, ours)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def replace_folder(building: Path, out: Path, ours: Sequence[str]) -> None:
    """Replaces the folder ``out`` by ``building``. After a kill in between, ``tidy`` brings ``out`` back.

    ours: as for ``require_ours``, which checks again because building may have taken hours.
    """
    require_ours(out, ours)
    for path in building.rglob("*"):
        _sync(path)
    if out.exists():
        out.replace(_replaced(out))
    building.replace(out)
    shutil.rmtree(_replaced(out), ignore_errors=True)
    _sync(out.parent)
