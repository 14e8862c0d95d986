"""VSE++ and SCAN's precomputed features: ``<split>_ims.npy`` and ``<split>_caps.txt``.

The layout of Kiros et al. as VSE++, SCAN, SGRAF, NCR and L2RM read it. Differs from the authors'
loaders: see ``per_image``; and the development split is read completely (they cut it after 5000
captions)."""

import math
from pathlib import Path

import numpy as np

from vse_pipe.core.errors import InputError
from vse_pipe.prepare import arrays
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import PrecompOptions as Params


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder. ``file`` is ``<split>_ims.npy#<row>`` and sha256 that of the stored bytes
    of the row.

    image_id and caption_id are running numbers. Raises InputError for a missing, truncated or
    pickled file, captions and rows that do not fit together, captions per image that differ between
    splits, a caption that is not UTF-8."""
    sources.existing(source)
    splits, counts = arrays.Splits(), dict[str, int]()
    for prefix in params.prefixes:
        features, listed = source / f"{prefix}_ims.npy", source / f"{prefix}_caps.txt"
        lines = enumerate(sources.read_lines(listed), start=1)
        captions = [caption(line, f"{listed} line {number}") for number, line in lines]
        if not captions:
            raise InputError(f"{listed}: no captions")
        digests, broken = arrays.row_digests(features)
        if len(captions) > len(digests) and len(captions) % len(digests) == 1 and not captions[-1]:
            del captions[-1]  # a blank last line
        where = f"{listed} and {features.name}"
        counts[prefix] = per_image(len(captions), digests, params.captions_per_image, where)
        splits.add(prefix, digests, captions, broken, counts[prefix])
    # A file that lost rows can still divide the captions evenly.
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{prefix} {count}" for prefix, count in counts.items())
        raise InputError(f"{source}: captions per image differ between splits ({listing}); complete the files")
    return splits.source(source)


def per_image(captions: int, digests: np.ndarray, count: int | None, where: str) -> int:
    """The captions of each image. captions: their number; digests: (rows, 32); count: that of the
    options, or None.

    VSE++ and its descendants divide the number of a caption by 5 when the counts differ and never
    when they agree, so a lost caption is not noticed and repeated rows count as images. Here the
    captions per image are captions / rows, which must be whole. When the counts agree, they are the
    greatest common divisor of the lengths of runs of equal rows, because two adjacent images may be
    equal. Raises InputError when nothing fits or the repetition is uneven."""
    rows = len(digests)
    if captions == rows:
        count = count or _repetition(digests, where)
        groups = digests.reshape(-1, count, digests.shape[1]) if rows % count == 0 else None
        if groups is not None and (groups == groups[:, :1]).all():
            return count
    elif captions % rows == 0 and count in (None, captions // rows):
        return captions // rows
    expected = f"captions_per_image {count}" if count else "one row per image or per caption"
    raise InputError(f"{where}: {captions} captions, {rows} rows of features, which do not fit {expected}")


def _repetition(digests: np.ndarray, where: str) -> int:
    changes = np.flatnonzero((digests[1:] != digests[:-1]).any(axis=1)) + 1
    lengths = np.diff(np.concatenate([[0], changes, [len(digests)]]))
    common = math.gcd(*lengths.tolist())
    repeats = lengths[lengths > 1].sum()
    if common == 1 and repeats * 2 > len(digests):
        raise InputError(
            f"{where}: {repeats} of {len(digests)} rows equal a neighbour, but not in groups of one size; keep one row "
            "per image, or set captions_per_image"
        )
    return common
