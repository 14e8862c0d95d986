"""Files on object storage, read by ranges through fsspec, never copied whole.

Credentials and the endpoint come from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``,
...), never from a URL."""

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from vse_pipe.core.errors import MissingResource, PipelineError, first_line
from vse_pipe.core.files import is_remote, url

# Bytes that are read ahead: headers of tar files and pages of Parquet files lie close together.
_BLOCK = 2**20
# Options of a protocol; others keep their defaults. Timeouts in seconds; s3fs itself tries five
# times.
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {"config_kwargs": {"connect_timeout": 10, "read_timeout": 30, "retries": {"total_max_attempts": 1}}}
}


def open_remote(path: Path) -> BinaryIO:
    """The file open for reading, a remote file by ranges. Raises MissingResource, PipelineError,
    and for a local file the errors of ``Path.open``."""
    if not is_remote(path):
        return path.open("rb")
    with _named(path):
        file = _system(path.parts[0]).open(url(path), "rb", block_size=_BLOCK)
    file.read = _named(path)(file.read)
    return file


def piece(path: Path, start: int, size: int) -> bytes:
    """A range of a file; fewer bytes at its end. Raises as ``open_remote``."""
    if not is_remote(path):
        with path.open("rb") as file:
            file.seek(start)
            return file.read(size)
    with _named(path):
        return _system(path.parts[0]).cat_file(url(path), start=start, end=start + size) if size else b""


def is_file(path: Path) -> bool:
    if not is_remote(path):
        return path.is_file()
    with _named(path), contextlib.suppress(FileNotFoundError):
        return _system(path.parts[0]).info(url(path))["type"] == "file"
    return False


def glob(folder: Path, pattern: str) -> list[Path]:
    """The files below ``folder`` that match, sorted, without hidden ones."""
    if not is_remote(folder):
        matching = (path for path in folder.glob(pattern) if not path.name.startswith("."))
        return sorted(path for path in matching if path.is_file())
    with _named(folder):
        system, base = _system(folder.parts[0]), url(folder).rstrip("/")
        entries = system.glob(f"{base}/{pattern}", detail=True)
        stem = system._strip_protocol(base).strip("/")
    names = (name.strip("/") for name, about in entries.items() if about["type"] == "file")
    return sorted(folder / name.removeprefix(stem).strip("/") for name in names)


def version(path: Path) -> str:
    """What a remote file's server says of its content: another text after every change."""
    with _named(path):
        return str(_system(path.parts[0]).checksum(url(path)))


@lru_cache
def _system(protocol: str) -> Any:
    import fsspec

    protocol = protocol.removesuffix(":")
    try:
        return fsspec.filesystem(protocol, **_OPTIONS.get(protocol, {}))
    except (ImportError, ValueError) as error:
        raise MissingResource(f"source {protocol}://: fsspec says: {first_line(error)}") from error


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of libraries may hold requests with signatures, so messages have only their kind."""
    try:
        yield
    except (PipelineError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise MissingResource(f"{url(path)}: there is no such bucket, folder or file") from error
    except Exception as error:
        kind = type(error).__name__
        is_refused = isinstance(error, PermissionError) or "Credentials" in kind
        raise (MissingResource if is_refused else PipelineError)(
            f"{url(path)}: cannot be read ({kind}); look at the credentials, the network and the endpoint"
        ) from error
