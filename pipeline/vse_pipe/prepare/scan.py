"""The pictures below a folder: their sizes and digests, and the cache that recognises unchanged files."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import images
from vse_pipe.core import console, text
from vse_pipe.core.console import shown
from vse_pipe.core.errors import InputError, UnreadableImage
from vse_pipe.core.files import inside, walk
from vse_pipe.pictures import read
from vse_pipe.pictures.address import cut, is_path, path_of
from vse_pipe.pictures.images import Size, header_size, orientation
from vse_pipe.pictures.read import decoding, open_picture
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.source import is_text

# Upright size, orientation, sha256, and None or the reason why the image cannot be used.
Read = tuple[Size, int, str, str | None]
_BLOCK = 10_000


def readings(root: Path, files: Iterable[tuple[str, str]], count: int) -> Iterator[Read]:
    """Yield the reading of every file below ``root`` in order. Threads read and decode (Pillow and hashlib release the
    lock), and progress is shown.

    files: names checked by ``locate``, each with the place that names it; count: number of files."""
    with contextlib.ExitStack() as stack:
        pool = ThreadPoolExecutor(min(16, os.cpu_count() or 1))
        stack.callback(pool.shutdown, cancel_futures=True)
        # Blocks, because a million files submitted at once are a million futures.
        waiting = iter(files)
        blocks = iter(lambda: list(islice(waiting, _BLOCK)), [])
        results = (result for block in blocks for result in pool.map(partial(_open, root), *zip(*block, strict=True)))
        yield from console.track(results, count, "images")


def locate(root: Path, file: str, where: str, in_shards: bool = False) -> None:
    """Raise InputError for a name that is not below ``root``. file: a name, or an address of
    ``vse_pipe.pictures.address`` if ``in_shards``; where: the place that names it."""
    name = path_of(file)
    if cut(file)[1] is not None or (name != file and not in_shards):
        raise InputError(f"{where}: file {file!r} reads as a place in the picture or file {name!r}; rename it")
    # An absolute name would be stored unchanged and name nothing on another machine, even when it is below the root.
    if Path(name).is_absolute():
        raise InputError(f"{where}: file {name!r} is absolute; names must be relative to {root}")
    inside(root, name, where)
    if not is_text(file):
        raise InputError(f"{where}: file {file!r} is not UTF-8; rename it")


def _open(root: Path, file: str, where: str) -> Read:
    digest = images.UNREAD
    try:
        content = read.content(root, file, where)
        digest = hashlib.sha256(content).hexdigest()
        return *_size(content), digest, None
    except UnreadableImage as error:
        return (0, 0), 1, digest, error.reason


def _size(content: bytes) -> tuple[Size, int]:
    with open_picture(content, "") as image, decoding(""):
        size, turned = header_size(image), orientation(image)
        # A JPEG must be read to its last block, but is decoded at an eighth of its size.
        image.draft(image.mode, (1, 1))
        image.load()
        return size, turned


# Size in bytes, and the times of change of the content and of the file system's entry in nanoseconds.
Stamp = tuple[int, int, int]


@dataclass
class FolderPictures:
    """stamps: of the pictures, by name below the folder; left_out: a line for each other possible picture."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def walked(source: Path) -> FolderPictures:
    """The pictures below ``source``; each file is looked at once."""
    pictures = FolderPictures()

    def left_out(path: str, reason: str) -> None:
        pictures.left_out.append(f"{shown(path)}: {reason}")

    for file, entry in walk(source, left_out):
        if not file.lower().endswith(ENDINGS):
            continue
        if reason := _objection(file, entry):
            left_out(entry.path, reason)
            continue
        try:
            status = entry.stat()
        except OSError as error:
            left_out(entry.path, f"it cannot be read ({error.strerror})")
        else:
            pictures.stamps[file] = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    _refuse_ids(pictures, source)
    return pictures


def _objection(file: str, entry: os.DirEntry) -> str | None:
    if not is_text(file):
        return "its name is not UTF-8; rename it"
    if not is_path(file):
        return "its name reads as a place in another file; rename it"
    return None


def _refuse_ids(pictures: FolderPictures, source: Path) -> None:
    files = sorted(pictures.stamps)
    for row, reason in text.objections(pa.array(files, pa.string())).items():
        del pictures.stamps[files[row]]
        pictures.left_out.append(f"{shown(str(source / files[row]))}: its path {reason} and cannot be an id; rename it")
