"""A folder of pictures and its subfolders, without captions: for embedding and search, not for training."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts.images import UNREAD
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError
from vse_pipe.core.text import repeats
from vse_pipe.pictures.names import ENDINGS
from vse_pipe.prepare.formats.options import FolderOptions as Params
from vse_pipe.prepare.scan import Read, ReadingCache, Stamp, readings, stamp_of, walked
from vse_pipe.prepare.source import Source, caption_table, existing, image_table
from vse_pipe.project import paths

# The split that is searched by default.
_SPLIT = "test"
# Readings of a file that is written meanwhile.
_TRIES = 3
_CHANGING = ((0, 0), 1, UNREAD, "changes while it is read")


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder. ``file`` is the path of a picture below it and its id as text. The number of a picture
    depends on the path alone, so it stays when pictures are added or removed. All are of split test, in the order of
    their paths.

    Pictures are files with one of ``ENDINGS``. Hidden files and folders are skipped; links to folders, links out of the
    folder and names that cannot be ids are left out and reported. Raises InputError for a source that is no folder or
    has no picture."""
    if not existing(source).is_dir():
        raise InputError(f"source {source} is no folder; format folder reads a folder of pictures")
    pictures = walked(source)
    if not pictures.stamps:
        more = f"; left out: {pictures.left_out[0]}" if pictures.left_out else ""
        raise InputError(f"{source}: no picture in it or in its folders, which end in {', '.join(ENDINGS)}{more}")
    files = sorted(pictures.stamps)
    with ReadingCache.opened(paths.picture_cache(source)) as cache:
        results = _readings(source, pictures.stamps, cache)
    widths, heights = zip(*(results[file][0] for file in files), strict=True)
    digests = [results[file][2] for file in files]
    # 63 bits of the path's digest.
    ids = np.array([int.from_bytes(sha256(file.encode()).digest()[:8]) >> 1 for file in files])
    _must_differ(ids, files, source)
    images = image_table(ids, files, [_SPLIT] * len(files), widths, heights, digests)
    broken = [f"{file} {why}" for file in files if (why := results[file][3]) is not None]
    names = TextIds.from_columns(image_id=(ids, pa.array(files, pa.string())))
    return Source(images, caption_table([], [], [], []), str(source), broken, names=names, left_out=pictures.left_out)


def _readings(source: Path, stamps: dict[str, Stamp], cache: ReadingCache) -> dict[str, Read]:
    """The readings of all files; a file whose stamp changes while it is read is read again, a few times."""
    results: dict[str, Read] = {}
    unread = []
    for file, stamp in sorted(stamps.items()):
        if (reading := cache.get(file, stamp)) is not None:
            results[file] = reading
        else:
            unread.append(file)
    cache.forget(stamps)
    for _ in range(_TRIES):
        again = []
        answers = readings(source, ((file, str(source / file)) for file in unread), len(unread))
        for file, result in zip(unread, answers, strict=True):
            now = stamp_of(source / file)
            if now is None or now == stamps[file]:
                results[file] = result
                cache.add(file, stamps[file], result)
            else:
                again.append(file)
                stamps[file], results[file] = now, _CHANGING
        if not again:
            break
        unread = again
    return results


def _must_differ(ids: np.ndarray, files: list[str], source: Path) -> None:
    """Raise InputError for two pictures with the same number: once in ten million folders of a million pictures."""
    for row, first in zip(*repeats(ids), strict=True):
        raise InputError(f"{source}: {files[row]} and {files[first]} have the same number; rename one of them")
