"""Open every image once: does it exist below its root, does it decode, how large is it, what is its digest."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, MissingResource, UnreadableImage
from vse_pipe.core.files import inside
from vse_pipe.pictures import read
from vse_pipe.pictures.address import cut, path_of
from vse_pipe.pictures.images import Size, orientation, upright
from vse_pipe.pictures.read import open_picture, undecodable
from vse_pipe.prepare.engine.source import is_text

# Upright size, orientation, sha256, and None or why the image cannot be used.
Read = tuple[Size, int, str, str | None]
_BLOCK = 10_000


@dataclass(frozen=True)
class Scanned:
    """Parallel to the files given. widths and heights: pixels of the upright picture; digests: sha256, hex; orientations: of
    EXIF, 1 to 8, where 1 is upright as stored.

    Of an image that cannot be used both sizes are 0, and the digest is ``UNREAD`` where there are no bytes to digest;
    broken: "<where>: <file> <reason>" of each of those, in order.
    """

    widths: list[int]
    heights: list[int]
    digests: list[str]
    orientations: list[int]
    broken: list[str] = field(default_factory=list)


def scan(root: Path, files: list[str], where: Callable[[int], str], in_shards: bool = False) -> Scanned:
    """Read and decode ``root / file`` for every file, in threads (Pillow and hashlib release the lock).

    files: names below ``root``, or addresses as ``vse_pipe.pictures.address`` reads them where they are ``in_shards``; where:
    the place in the data set that names file ``i``. Raises MissingResource without the folder, InputError at the first name
    that leaves ``root`` or, where it is none, reads as an address.
    """
    if not root.is_dir():
        raise MissingResource(
            f"image folder {root} does not exist; put the images there or set `images` to their folder"
        )
    places = [where(number) for number in range(len(files))]
    for file, place in zip(files, places, strict=True):
        locate(root, file, place, in_shards)
    results = list(readings(root, zip(files, places, strict=True), len(files)))
    broken = [
        f"{place}: {file} {result[3]}"
        for place, file, result in zip(places, files, results, strict=True)
        if result[3] is not None
    ]
    sizes, orientations, digests, _ = zip(*results, strict=True) if results else ((), (), (), ())
    widths, heights = [size[0] for size in sizes], [size[1] for size in sizes]
    return Scanned(widths, heights, list(digests), list(orientations), broken)


def readings(root: Path, files: Iterable[tuple[str, str]], count: int) -> Iterator[Read]:
    """Of every file, in their order, read in threads, with progress. files: as of ``scan``, known to lie below ``root``, each with
    the place that names it; count: of them."""
    with contextlib.ExitStack() as stack:
        pool = ThreadPoolExecutor(min(16, os.cpu_count() or 1))
        stack.callback(pool.shutdown, cancel_futures=True)
        # Blocks: all of a million submitted at once are a million futures.
        left = iter(files)
        blocks = iter(lambda: list(islice(left, _BLOCK)), [])
        found = (one for block in blocks for one in pool.map(partial(_open, root), *zip(*block, strict=True)))
        yield from console.track(found, count, "images")


def locate(root: Path, file: str, where: str, in_shards: bool) -> None:
    """Raises InputError for what is no name below ``root``; the arguments are those of ``scan``."""
    whole, box = cut(file)
    if box is not None:
        raise InputError(f"{where}: file {file!r} reads as a box in the picture {whole!r}; rename the picture")
    name = path_of(file)
    if name != file and not in_shards:
        raise InputError(
            f"{where}: file {file!r} reads as the place of a picture in {name!r}; rename the picture, or read the shards "
            "themselves with the format webdataset or parquet"
        )
    if not name:
        raise InputError(f"{where}: the image's file name is empty")
    # An absolute name would be stored as it is and name nothing on another machine, even where it lies below the root.
    if Path(name).is_absolute():
        raise InputError(f"{where}: file {name!r} is absolute; names must be relative to {root} and stay below it")
    inside(root, name, where)
    if not in_shards and ".." in name.split("/"):
        raise InputError(
            f"{where}: file {file!r}: a name with '..' can be a second name of a picture; write it without"
        )
    if not is_text(file):
        raise InputError(f"{where}: file {file!r} is not UTF-8; rename it")


def _open(root: Path, file: str, where: str) -> Read:
    digest = UNREAD
    try:
        content = read.content(root, file, where)
        digest = hashlib.sha256(content).hexdigest()
        return *_size(content), digest, None
    except UnreadableImage as error:
        return (0, 0), 1, digest, error.reason


def _size(content: bytes) -> tuple[Size, int]:
    with open_picture(content, "") as image:
        size = image.size
        try:
            turned = orientation(image)
            # A JPEG still has to be read to its last block, but is drawn at an eighth of its size.
            image.draft(image.mode, (1, 1))
            image.load()
        except Exception as error:
            raise undecodable("", error) from error
    return upright(size, turned), turned
