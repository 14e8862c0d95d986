"""The pictures below a folder: names, sizes and digests."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import images
from vse_pipe.core import console, text
from vse_pipe.core.console import plain
from vse_pipe.core.errors import InputError, UnreadableImage
from vse_pipe.core.files import inside, walk
from vse_pipe.pictures import read
from vse_pipe.pictures.address import cut, is_path, path_of
from vse_pipe.pictures.images import Size, header_size
from vse_pipe.pictures.read import decoding, open_picture
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.source import is_text

# Upright size, sha256, and None or the reason why the image cannot be used.
Read = tuple[Size, str, str | None]
_BLOCK = 10_000


def readings(root: Path, files: Iterable[tuple[str, str]], count: int) -> Iterator[Read]:
    """Yield the reading of every file below ``root`` in order. Threads read and decode (Pillow and
    hashlib release the lock), and progress is shown.

    files: names checked by ``locate``, each with the place that names it; count: number of
    files."""
    pool = ThreadPoolExecutor(min(16, os.cpu_count() or 1))
    # Blocks, because a million files submitted at once are a million futures.
    waiting = iter(files)
    blocks = iter(lambda: list(islice(waiting, _BLOCK)), [])
    results = (result for block in blocks for result in pool.map(partial(_open, root), *zip(*block, strict=True)))
    try:
        yield from console.track(results, count, "images")
    finally:
        pool.shutdown(cancel_futures=True)


def locate(root: Path, file: str, where: str, in_shards: bool = False) -> None:
    """Raise InputError for a name that is not below ``root``. file: a name, or an address of
    ``vse_pipe.pictures.address`` if ``in_shards``; where: the place that names it."""
    name = path_of(file)
    if cut(file)[1] is not None or (name != file and not in_shards):
        raise InputError(f"{where}: file {file!r} reads as a place in the picture or file {name!r}; rename it")
    # An absolute name would be stored unchanged and name nothing on another machine, even when it
    # is below the root.
    if Path(name).is_absolute():
        raise InputError(f"{where}: file {name!r} is absolute; names must be relative to {root}")
    if not Path(name).name:
        raise InputError(f"{where}: {name!r} names no picture")
    inside(root, name, where)
    if not is_text(file):
        raise InputError(f"{where}: file {file!r} is not UTF-8; rename it")


def _open(root: Path, file: str, where: str) -> Read:
    digest = images.UNREAD
    try:
        content = read.content(root, file, where)
        digest = hashlib.sha256(content).hexdigest()
        with open_picture(content, "") as image, decoding(""):
            size = header_size(image)
            # A JPEG must be read to its last block, but is decoded at an eighth of its size.
            image.draft(image.mode, (1, 1))
            image.load()
        return size, digest, None
    except UnreadableImage as error:
        return (0, 0), digest, error.reason


def walked(source: Path) -> tuple[list[str], list[str]]:
    """The names of the pictures below ``source``, sorted, and a line for each that is left out."""
    names: list[str] = []
    left_out: list[str] = []

    def leave_out(path: str, reason: str) -> None:
        left_out.append(f"{plain(path)}: {reason}")

    for file, path in walk(source, leave_out):
        if not file.lower().endswith(ENDINGS):
            continue
        if not os.path.exists(path):  # noqa: PTH110 (False for every error)
            leave_out(path, "it leads to no file")
        elif not is_text(file):
            leave_out(path, "its name is not UTF-8; rename it")
        elif not is_path(file):
            leave_out(path, "its name reads as a place in another file; rename it")
        else:
            names.append(file)
    names.sort()
    reasons = text.objections(pa.array(names, pa.string()))
    for row, reason in reasons.items():
        leave_out(str(source / names[row]), f"its path {reason} and cannot be an id; rename it")
    return [name for row, name in enumerate(names) if row not in reasons], left_out
