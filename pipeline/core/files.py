"""Files that appear whole or not at all, and their digests."""

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from pipeline.core.errors import InputError, PipelineError

if TYPE_CHECKING:
    from pandas import DataFrame  # half a second that most commands do without


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
def _named(path: Path) -> Iterator[None]:
    """A full disk does not say which file it was: an OSError without a name gets that of ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.strerror = error.strerror or str(error)
            error.filename = str(path)
        raise


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it is synced and renamed, on failure removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _named(path):
            yield temporary
            _sync(temporary)
            temporary.replace(path)
            _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``out`` that takes its place on success; on failure ``out`` stays as it was."""
    building = out.with_name(out.name + ".partial")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        with _named(out):
            yield building
            for path in building.rglob("*"):
                _sync(path)
            discard = out.with_name(out.name + ".old.partial")
            shutil.rmtree(discard, ignore_errors=True)
            if out.exists():
                out.replace(discard)
            building.replace(out)
            shutil.rmtree(discard, ignore_errors=True)
            _sync(out.parent)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_csv(path: Path, table: "DataFrame") -> None:
    """Without the index, lines ended by a line feed everywhere."""
    with whole_file(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")


def read_csv(path: Path, columns: Sequence[str], made_by: str) -> "DataFrame":
    """What ``write_csv`` wrote. Raises InputError when the file is missing, is none or lacks one of ``columns``."""
    import pandas as pd

    again = f"run `{made_by}` again"
    try:
        with warnings.catch_warnings():
            # Of lines longer than the header, whose first cells pandas would else take for an index.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(require(path, made_by), index_col=False)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise InputError(f"{path}: not a CSV file ({' '.join(str(error).split())}); {again}") from error
    for name in columns:
        if name not in table.columns:
            raise InputError(f"{path}: column '{name}' is missing; {again}")
    return table


def write_json(path: Path, content: object) -> None:
    """Sorted keys, indented, final newline; NaN and infinities are refused (ValueError), not written."""
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    write_text(path, text + "\n")


def save_tensors(path: Path, tensors: dict, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file of torch tensors or of numpy arrays, contiguous, whole or not at all.

    metadata: one key; several would come in an order that changes from file to file.
    Raises PipelineError with the reason when it cannot be written: safetensors has an error of its own for a full disk.
    """
    import numpy as np
    from safetensors import SafetensorError

    of_numpy = all(isinstance(tensor, np.ndarray) for tensor in tensors.values())
    library = importlib.import_module("safetensors.numpy" if of_numpy else "safetensors.torch")
    try:
        with whole_file(path) as temporary:
            library.save_file(tensors, temporary, metadata=metadata)
    except SafetensorError as error:
        raise PipelineError(f"{path}: {error}") from error


@overload
def read_json(path: Path) -> dict: ...


@overload
def read_json(path: Path, kind: type[list]) -> list: ...


def read_json(path: Path, kind: type[dict] | type[list] = dict) -> dict | list:
    """kind: what the document is, ``dict`` or ``list``. Raises InputError when the file is missing or is not that."""
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
    """``path`` if it exists. Raises InputError that names the command which makes it."""
    if not path.exists():
        advice = f"; make it with `{made_by}` or `dvc repro`" if made_by else ""
        raise InputError(f"{path} does not exist{advice}")
    return path
