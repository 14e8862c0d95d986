"""A folder of pictures and its subfolders, without captions: for embedding and search."""

import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import images
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.text import repeats
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.formats.options import FolderOptions as Params
from vse_pipe.prepare.scan import Read, Stamp, readings, walked
from vse_pipe.prepare.source import Source, caption_table, existing, image_table
from vse_pipe.project import paths

# The split that is searched by default.
_SPLIT = "test"
# A file that changes again within a tick of the file system's clock keeps its time.
_TICK_NS = 2 * 10**9
_WRITTEN_EVERY = 50_000


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder. ``file`` is the path of a picture below it and its id as text. The number
    of a picture depends on the path alone, so it stays when pictures are added or removed. All are
    of split test, in the order of their paths.

    Pictures are files with one of ``ENDINGS``. Hidden files and folders are skipped; links to
    folders, links out of the folder and names that cannot be ids are left out and reported. Raises
    InputError for a source that is no folder or has no picture."""
    if not existing(source).is_dir():
        raise InputError(f"source {source} is no folder; format folder reads a folder of pictures")
    stamps, left_out = walked(source)
    if not stamps:
        more = f"; left out: {left_out[0]}" if left_out else ""
        raise InputError(f"{source}: no picture in it or in its folders, which end in {', '.join(ENDINGS)}{more}")
    files = sorted(stamps)
    results = _readings(source, stamps)
    sizes, digests, reasons = zip(*(results[file] for file in files), strict=True)
    widths, heights = zip(*sizes, strict=True)
    # 63 bits of the path's digest.
    ids = np.array([int.from_bytes(sha256(file.encode()).digest()[:8]) >> 1 for file in files])
    for row, first in zip(*repeats(ids), strict=True):  # once in ten million folders of a million pictures
        raise InputError(f"{source}: {files[row]} and {files[first]} have the same number; rename one of them")
    table = image_table(ids, files, [_SPLIT] * len(files), widths, heights, digests)
    broken = [f"{file} {why}" for file, why in zip(files, reasons, strict=True) if why is not None]
    names = TextIds.from_columns(image_id=(ids, pa.array(files, pa.string())))
    return Source(table, caption_table([], [], [], []), str(source), broken, names=names, left_out=left_out)


def _readings(source: Path, stamps: dict[str, Stamp]) -> dict[str, Read]:
    """The readings of all files. Those of usable files that did not change since an earlier call
    come from data/seen/, where they are written from time to time and at the end, also after an
    interruption."""
    folder, settled = paths.picture_cache(source), time.time_ns() - _TICK_NS
    results = _recorded(folder, stamps)
    unread = sorted(stamps.keys() - results.keys())

    def write() -> None:
        images.write_seen(
            folder,
            (
                (file, *stamps[file], *size, digest)
                for file, (size, digest, reason) in results.items()
                if reason is None and stamps[file][1] < settled
            ),
        )

    answers = readings(source, ((file, str(source / file)) for file in unread), len(unread))
    try:
        for number, (file, reading) in enumerate(zip(unread, answers, strict=True), 1):
            results[file] = reading
            if number % _WRITTEN_EVERY == 0:
                write()
    finally:
        if unread:
            write()
    return results


def _recorded(folder: Path, stamps: dict[str, Stamp]) -> dict[str, Read]:
    """The readings of files with these stamps. A damaged file is reported and ignored."""
    if not (folder / images.SEEN).is_file():
        return {}
    try:
        rows = images.read_seen(folder)
    except (InputError, IntegrityError) as error:
        console.warn(f"{error}; all pictures are read again")
        return {}
    return {
        file: ((width, height), digest, None)
        for file, *stamp, width, height, digest in rows
        if stamps.get(file) == tuple(stamp)
    }
