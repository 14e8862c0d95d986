"""VSE++ and SCAN's precomputed features: ``<split>_ims.npy``, ``<split>_caps.txt``, optionally
``<split>_ids.txt``.

The layout of Kiros et al. as VSE++, SCAN, SGRAF, NCR and L2RM read it. Differs from the authors'
loaders: see ``per_image``; and the development split is read completely (they cut it after 5000
captions)."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import memory, text
from vse_pipe.core.errors import InputError
from vse_pipe.prepare import arrays
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import PrecompOptions as Params


@dataclass(frozen=True)
class _Split:
    """digests, broken: as of ``arrays``; names: lines of ids.txt, or None."""

    prefix: str
    captions: list[str]
    per_image: int
    digests: np.ndarray
    broken: dict[int, str]
    names: list[str] | None

    @property
    def images(self) -> int:
        return len(self.captions) // self.per_image


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder. ``file`` is ``<split>_ims.npy#<row>`` and sha256 that of the stored bytes
    of the row.

    image_id is the number in ids.txt if every split has whole numbers without repetition, else a
    running number; caption_id is a running number. Raises InputError for a missing, truncated or
    pickled file, captions and rows that do not fit together, inferred captions per image that
    differ between splits, a caption that is not UTF-8, repeated or missing ids."""
    sources.existing(source)
    splits = [_read_split(source, prefix, params) for prefix in params.prefixes]
    inferred = {split.per_image for split in splits if params.count(split.prefix) is None}
    # A file that lost rows can still divide the captions evenly.
    if inferred - {splits[0].per_image}:
        listed = ", ".join(f"{split.prefix} {split.per_image}" for split in splits)
        raise InputError(
            f"{source}: captions per image differ between splits ({listed}); complete the files, or set "
            "captions_per_image, a number a split where they do differ"
        )
    ids, tables, start = _image_ids(source, splits), arrays.Splits(), 0
    for split in splits:
        split_ids = ids[start : start + split.images]
        tables.add(split.prefix, split_ids, split.digests, split.captions, split.broken)
        start += split.images
    return tables.source(source)


def _read_split(source: Path, prefix: str, params: Params) -> _Split:
    features, listed = source / f"{prefix}_ims.npy", source / f"{prefix}_caps.txt"
    lines = enumerate(sources.read_lines(listed), start=1)
    captions = [caption(line, f"{listed} line {number}") for number, line in lines]
    if not captions:
        raise InputError(f"{listed}: no captions")
    digests, broken = arrays.row_digests(features)
    if len(captions) > len(digests) and len(captions) % len(digests) == 1 and not captions[-1]:
        del captions[-1]  # a blank last line
    count = per_image(len(captions), digests, params.count(prefix), f"{listed} and {features.name}")
    names = _names(source / f"{prefix}_ids.txt", len(captions), count)
    return _Split(prefix, captions, count, digests, broken, names)


def _names(path: Path, captions: int, per_image: int) -> list[str] | None:
    """A name for each image from a file with a line per image or per caption; None without a file.

    Lines per caption that are all different are ids of captions and name no image."""
    if not path.exists():
        return None
    memory.require_text(path)
    lines, images = [line.strip() for line in sources.read_lines(path)], captions // per_image
    if len(lines) not in (images, captions):
        raise InputError(f"{path}: {len(lines)} ids, expected one per image ({images}) or one per caption ({captions})")
    if len(lines) == captions != images and len(set(lines)) == captions:
        return None
    names = lines[:: len(lines) // images]
    for number, line in enumerate(lines):
        if line != (name := names[number * images // len(lines)]):
            raise InputError(f"{path} line {number + 1}: its image has the id '{name}' above")
    _refuse_repeated(names, str(path))
    return names


def _image_ids(source: Path, splits: list[_Split]) -> np.ndarray:
    running = np.arange(sum(split.images for split in splits))
    if any(split.names is None for split in splits):
        return running
    names = [name for split in splits for name in split.names or ()]
    if text.are_numbers(pa.array(names, pa.string())):
        numbers = np.array(names, dtype=np.int64)
        return numbers if len(np.unique(numbers)) == len(numbers) else running
    # Numbers may restart in every split, but a file name in two splits is the same image.
    _refuse_repeated(names, f"{source}/*_ids.txt")
    return running


def _refuse_repeated(names: list[str], where: str) -> None:
    places: dict[str, str] = {}
    for number, name in enumerate(names):
        sources.refuse_repeated(places, name, "id", f"{where} image {number}")


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
