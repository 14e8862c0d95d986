"""Files that appear whole or not at all, and their digests."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import InputError


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
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it is synced and renamed, on failure removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
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


def write_json(path: Path, content: object) -> None:
    """Sorted keys, indented, final newline; NaN and infinities are refused (ValueError), not written."""
    text = json.dumps(content, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
    with whole_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> dict:
    """Raises InputError when the file is missing or is not JSON."""
    try:
        return json.loads(require(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a JSON document ({error})") from error


def require(path: Path, made_by: str = "") -> Path:
    """``path`` if it exists. Raises InputError that names the command which makes it."""
    if not path.exists():
        advice = f"; make it with `{made_by}` or `dvc repro`" if made_by else ""
        raise InputError(f"{path} does not exist{advice}")
    return path
