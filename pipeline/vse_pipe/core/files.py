"""Files and folders that appear whole or not at all, names that stay below a root, and JSON.

``s3://bucket/shards`` is a path whose first part is ``s3:``; ``core.remote`` reads it."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vse_pipe.core.errors import InputError, IntegrityError, PipelineError, UsageError, command_of

if TYPE_CHECKING:
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
    """The path of a source, ``file:///`` too. Raises UsageError for a URL with a user, a password or
    a query in it."""
    if re.match(rf"{_PROTOCOL.pattern}/", source, re.IGNORECASE) and re.search(r"[@?#]", source):
        raise UsageError(
            "source: a URL of object storage names a bucket and a folder, with no user, password or query in it; "
            "credentials belong in environment variables such as AWS_ACCESS_KEY_ID"
        )
    return Path(re.sub("^file://(?=/)", "", source))


def inside(root: Path, name: str, where: str) -> Path:
    """``root / name``. Raises InputError where the name leaves ``root``: absolute, or with ``..``; a
    link may lead anywhere. where: the file and row that named it, for the message."""
    path, parts = root / name, name.split("/")
    is_text = not re.search("[\0\ud800-\udfff]", name)
    if ".." in parts or not is_text or Path(name).is_absolute() or (is_remote(root) and "" in parts):
        raise InputError(f"{where}: file {name!r} lies outside its root {url(root)}; names must stay below it")
    return path


def walk(root: Path, left_out: Callable[[str, str], object] = lambda path, reason: None) -> Iterator[tuple[str, str]]:
    """(name below ``root``, path) of every file in it and its folders, without hidden ones. Links
    to folders are followed last, each folder once. left_out: called with the path of a folder that is
    not read, and the reason."""

    def unread(error: OSError) -> None:
        left_out(error.filename, f"the folder cannot be read ({error.strerror})")

    pending, real_paths = deque([str(root)]), set()
    while pending:
        for folder, folders, names in os.walk(pending.popleft(), onerror=unread):
            if (real := os.path.realpath(folder)) in real_paths:
                left_out(folder, "a link to a folder that is read already")
                folders.clear()
                continue
            real_paths.add(real)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            pending.extend(filter(os.path.islink, (f"{folder}/{name}" for name in folders)))
            prefix = f"{folder}/".removeprefix(f"{root}/")
            yield from ((prefix + name, f"{folder}/{name}") for name in names if not name.startswith("."))


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_digests(folder: Path, document: str, digests: object, names: Iterable[str]) -> None:
    """Raises IntegrityError unless files in ``folder`` have the digests {name: hex} of
    ``document``, InputError for one that is missing."""
    for name in names:
        if not isinstance(digests, dict) or sha256(require(folder / name)) != digests.get(name):
            raise IntegrityError(f"{folder / name}: content does not match the digest in {document}; make it again")


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_bytes(text.encode())


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


def save_tensors(path: Path, tensors: dict) -> None:
    """A safetensors file of torch tensors or numpy arrays, contiguous; whole or not at all."""
    import numpy as np
    from safetensors import numpy, torch

    library = numpy if all(isinstance(tensor, np.ndarray) for tensor in tensors.values()) else torch
    with whole_file(path) as temporary:
        library.save_file(tensors, temporary)


def read_json(path: Path, kind: type = dict) -> Any:
    """The document, of type ``kind``. Raises InputError for anything else."""
    try:
        document = json.loads(require(path).read_text(encoding="utf-8"))
    # ValueError: no JSON, no UTF-8, or an integer of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a JSON document ({error})") from error
    if not isinstance(document, kind):
        raise InputError(f"{path}: the JSON document is a {type(document).__name__}, expected a {kind.__name__}")
    return document


def require(path: Path) -> Path:
    """``path`` if it exists. Raises InputError that names the command which makes it."""
    if not path.exists():
        command = command_of(path)
        advice = f"; make it with `{command}` or `dvc repro`" if command else ""
        raise InputError(f"{path} does not exist{advice}")
    return path


_TEMPORARY = ".vse-pipe.*.tmp"


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path of the same name in a folder beside ``path``; on success it is synced and
    renamed, on failure removed. After a kill the folder stays until ``tidy``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix, suffix = _TEMPORARY.split("*")
    # A folder, since safetensors puts a file of its own beside the one it writes.
    with tempfile.TemporaryDirectory(suffix, prefix, path.parent, ignore_cleanup_errors=True) as folder:
        temporary = Path(folder) / path.name
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)


def tidy(out: Path) -> None:
    """Removes what a killed writer left of the folder ``out``, and brings back the folder that it
    was replacing. Raises PipelineError where a file has the folder's name."""
    for folder in (out, partial_folder(out)):
        for left in [*folder.glob(_TEMPORARY), *folder.glob(f"*/{_TEMPORARY}")]:
            shutil.rmtree(left, ignore_errors=True)
    if out.exists() and not out.is_dir():
        raise PipelineError(f"{out}: a file lies in the place of a folder; move it away and run the same command again")
    if not out.exists() and _replaced(out).exists():
        _replaced(out).replace(out)
    shutil.rmtree(_replaced(out), ignore_errors=True)


def require_free(out: Path, kind: str, mark: str = "", key: bytes = b"", option: str = "--out") -> Path:
    """The resolved path of the new file or folder that ``option`` names. Raises UsageError for a file
    in the place of a parent, and for what exists and is not of ``kind``, such as ``an export``: then
    ``key`` is in the first 1000 bytes of ``out``, or in the first MiB of the file ``mark`` in the
    folder ``out``. An empty folder is free, a repository of git never is."""
    place = next(path for path in (out, *out.absolute().parents) if path.exists())
    if place == out and (out / mark).is_file() and not (out / ".git").exists():
        with (out / mark).open("rb") as file:
            is_free = key in file.read(2**20 if mark else 1000)
    else:
        is_free = place.is_dir() and (place != out or (bool(mark) and not any(out.iterdir())))
    if not is_free:
        raise UsageError(f"{option}: {place} exists and is not {kind}; choose another name")
    return out.resolve()


def partial_folder(out: Path) -> Path:
    """Where the folder ``out`` is built before it takes its place."""
    return out.with_name(out.name + ".partial")


def _replaced(out: Path) -> Path:
    return partial_folder(partial_folder(out))


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``out`` that takes its place on success; on failure ``out``
    stays as it was."""
    tidy(out)
    building = partial_folder(out)
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        replace_folder(building, out)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def replace_folder(building: Path, out: Path) -> None:
    """Replaces the folder ``out`` by ``building``. After a kill in between, ``tidy`` brings ``out``
    back."""
    for path in building.rglob("*"):
        _sync(path)
    if out.exists():
        out.replace(_replaced(out))
    building.replace(out)
    shutil.rmtree(_replaced(out), ignore_errors=True)
    _sync(out.parent)
