"""The pictures below a folder: their sizes and digests, and the cache that recognises unchanged files."""

import contextlib
import hashlib
import os
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import images
from vse_pipe.core import console, text
from vse_pipe.core.console import shown
from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.core.files import inside, walk
from vse_pipe.pictures import read
from vse_pipe.pictures.address import cut, is_path, path_of
from vse_pipe.pictures.images import Size, header_size, orientation
from vse_pipe.pictures.names import ENDINGS, nearest
from vse_pipe.pictures.read import decoding, open_picture
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
        near = f", such as {near!r}" if (near := nearest(root, name)) else ""
        raise InputError(f"{where}: file {name!r} is absolute; names must be relative to {root}{near}")
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
_EVERY_S = 30.0
# All rows are written each time; reading in between takes at least this many times as long.
_READING = 20
# A file that changes again within a tick of the file system's clock keeps its time.
_TICK_NS = 2 * 10**9


@dataclass
class ReadingCache:
    """The readings of usable pictures by name, each with the stamp of the file. folder: of the cache file.

    Unusable pictures are not cached: they are cheap to read, and they may be complete the next time."""

    folder: Path
    _readings: dict[str, tuple[Stamp, Read]] = field(default_factory=dict)
    _changed: bool = False
    _written_at: float = field(default_factory=time.monotonic)
    _seconds: float = 0.0

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path) -> Iterator["ReadingCache"]:
        """The cache of ``folder``, written from time to time and at the end, also after an interruption. A damaged file
        is reported and ignored."""
        cache = cls(folder)
        if (folder / images.SEEN).is_file():
            try:
                cache._readings = _read(folder)
            except (InputError, IntegrityError) as error:
                console.warn(f"{error}; all pictures are read again")
        try:
            yield cache
        finally:
            cache._write()

    def get(self, file: str, stamp: Stamp) -> Read | None:
        was, read = self._readings.get(file, (None, None))
        return read if was == stamp else None

    def forget(self, files: Collection[str]) -> None:
        """Remove the readings of all other files."""
        removed = self._readings.keys() - set(files)
        for file in removed:
            del self._readings[file]
        self._changed |= bool(removed)

    def add(self, file: str, stamp: Stamp, read: Read) -> None:
        if read[3] is not None or stamp[1] > time.time_ns() - _TICK_NS:
            return
        self._readings[file], self._changed = (stamp, read), True
        if time.monotonic() - self._written_at > max(_EVERY_S, _READING * self._seconds):
            self._write()

    def _write(self) -> None:
        started = time.monotonic()
        if self._changed:
            images.write_seen(
                self.folder, ((file, *stamp, *read[0], *read[1:3]) for file, (stamp, read) in self._readings.items())
            )
        self._changed, self._written_at = False, time.monotonic()
        self._seconds = self._written_at - started


def _read(folder: Path) -> dict[str, tuple[Stamp, Read]]:
    return {
        file: ((size, changed, entry), ((width, height), turned, digest, None))
        for file, size, changed, entry, width, height, turned, digest in images.read_seen(folder)
    }


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
        elif stamp := stamp_of(entry):
            pictures.stamps[file] = stamp
        else:
            left_out(entry.path, "it was removed meanwhile")
    _refuse_ids(pictures, source)
    return pictures


def _objection(file: str, entry: os.DirEntry) -> str | None:
    if not is_text(file):
        return "its name is not UTF-8; rename it"
    if not is_path(file):
        return "its name reads as a place in another file; rename it"
    if entry.is_symlink() and not os.path.exists(entry):  # noqa: PTH110 (no Path for each of a million)
        return "a link that leads to no file"
    return None


def _refuse_ids(pictures: FolderPictures, source: Path) -> None:
    files = sorted(pictures.stamps)
    for row, reason in text.objections(pa.array(files, pa.string())).items():
        del pictures.stamps[files[row]]
        pictures.left_out.append(f"{shown(str(source / files[row]))}: its path {reason} and cannot be an id; rename it")


def stamp_of(place: Path | os.DirEntry) -> Stamp | None:
    """The stamp of a file; None if it was removed."""
    try:
        status = place.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
