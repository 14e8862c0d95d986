"""A folder of pictures and its subfolders, without captions: for embedding and search."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import images
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError
from vse_pipe.core.text import repeats
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.formats.options import FolderOptions as Params
from vse_pipe.prepare.scan import Read, Stamp, readings, walked
from vse_pipe.prepare.source import Source, caption_table, existing, image_table
from vse_pipe.project import paths

# The split that is searched by default.
_SPLIT = "test"


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
    come from data/seen/, where they are written at the end, also after an interruption."""
    folder = paths.picture_cache(source)
    rows = images.read_seen(folder) if (folder / images.SEEN).is_file() else ()
    results: dict[str, Read] = {
        file: ((width, height), digest, None)
        for file, *stamp, width, height, digest in rows
        if stamps.get(file) == tuple(stamp)
    }
    unread = sorted(stamps.keys() - results.keys())
    answers = readings(source, ((file, str(source / file)) for file in unread), len(unread))
    try:
        for file, reading in zip(unread, answers, strict=True):
            results[file] = reading
    finally:
        usable = ((file, size, digest) for file, (size, digest, reason) in results.items() if reason is None)
        images.write_seen(folder, ((file, *stamps[file], *size, digest) for file, size, digest in usable))
    return results
