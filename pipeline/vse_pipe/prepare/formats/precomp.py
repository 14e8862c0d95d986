"""VSE++ and SCAN's precomputed features: ``<split>_ims.npy``, ``<split>_caps.txt``, optionally ``<split>_ids.txt``.

The layout of Kiros et al. as VSE++, SCAN, SGRAF, NCR and L2RM read it. Differs from the authors' loaders: see
``group``; and the development split is read completely (they cut it after 5000 captions)."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import memory, text
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.prepare import arrays
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import PrecompOptions as Params


@dataclass(frozen=True)
class Grouping:
    """Captions of image k begin at ``k * captions``, and its features are in row ``k * rows``; counts are per image."""

    captions: int
    rows: int


@dataclass(frozen=True)
class _Split:
    """captions: as of ``texts``; digests: uint8 (rows, 32); names: lines of ids.txt, one per image, or None."""

    prefix: str
    captions: pa.Table
    groups: Grouping
    digests: np.ndarray
    names: list[str] | None
    broken: list[str]

    @property
    def images(self) -> int:
        return len(self.captions) // self.groups.captions


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder. ``file`` is ``<split>_ims.npy#<row>`` and sha256 that of the stored bytes of the row.

    image_id is the number in ids.txt if every split has whole numbers without repetition, else a running number;
    caption_id is a running number. Raises InputError for a missing, truncated or pickled file, captions and rows that
    do not fit together, inferred captions per image that differ between splits, a caption that is not UTF-8,
    repeated or missing ids."""
    sources.existing(source)
    _warn_of_first_1k(source, params)
    splits = [_read_split(source, prefix, params, out) for prefix in params.prefixes]
    _must_agree(source, splits, params)
    ids, tables = _image_ids(source, splits), arrays.Splits(out)
    for split, split_ids in zip(splits, np.split(ids, np.cumsum([split.images for split in splits])[:-1]), strict=True):
        name = sources.split_of(split.prefix.removesuffix("all"), split.prefix)
        tables.add(split.prefix, name, split_ids, split.digests, split.captions, split.broken)
    return tables.source(source)


def _warn_of_first_1k(source: Path, params: Params) -> None:
    # Results of "test" under the 5K protocol are a frequent mistake (SCAN #14, SGRAF #7); setting ``test`` silences
    # this.
    unsaid = "test" in params.splits and "test" not in params.model_fields_set
    if unsaid and (source / "testall_ims.npy").exists():
        warn(
            f"{source} has testall_ims.npy too; reading test_ims.npy (COCO: the first 1,000 images). Set `test` to test or testall"
        )


def _read_split(source: Path, prefix: str, params: Params, out: Path) -> _Split:
    features, listed = source / f"{prefix}_ims.npy", source / f"{prefix}_caps.txt"
    lines = enumerate(sources.read_lines(listed), start=1)
    captions = arrays.texts(out, (caption(line, f"{listed} line {number}") for number, line in lines))
    if not len(captions):
        raise InputError(f"{listed}: no captions")
    digests, broken = arrays.row_digests(arrays.open_array(features), features)
    over = len(captions) % len(digests) if len(captions) > len(digests) else 0
    if over == 1 and not captions["text"][-1].as_py():
        captions = captions.slice(0, len(captions) - 1)  # a blank last line
    groups = group(len(captions), digests, _captions_per_image(params, prefix), f"{listed} and {features.name}")
    names = _names(source / f"{prefix}_ids.txt", len(captions), groups)
    unfit = [broken[row] for row in broken if row % groups.rows == 0]
    return _Split(prefix, captions, groups, digests, names, unfit)


def _captions_per_image(params: Params, prefix: str) -> int | None:
    """Captions per image of the parameters; None to infer them."""
    counts = params.captions_per_image
    if not isinstance(counts, dict):
        return counts
    return next((count for split, count in counts.items() if split == prefix.removesuffix("all")), None)


def _must_agree(source: Path, splits: list[_Split], params: Params) -> None:
    """Raise InputError when inferred counts differ: a file that lost rows can still divide the captions evenly."""
    inferred = {
        split.prefix: split.groups.captions for split in splits if _captions_per_image(params, split.prefix) is None
    }
    counts = {split.prefix: split.groups.captions for split in splits}
    odd = next((prefix for prefix in inferred if counts[prefix] != counts[splits[0].prefix]), None)
    if odd is not None:
        listed = ", ".join(f"{prefix} {count}" for prefix, count in counts.items())
        raise InputError(
            f"{source}: the splits differ in captions per image ({listed}), so that captions may go to wrong images; "
            f"complete {odd}_ims.npy and {odd}_caps.txt, or set captions_per_image, a number a split where they do differ"
        )


def _names(path: Path, captions: int, groups: Grouping) -> list[str] | None:
    """A name for each image from a file with a line per image or per caption; None without a file.

    Lines per caption that are all different are ids of captions and name no image."""
    if not path.exists():
        return None
    memory.require_text(path)
    lines = [line.strip() for line in sources.read_lines(path)]
    images = captions // groups.captions
    if len(lines) not in (images, captions):
        raise InputError(f"{path}: {len(lines)} ids, expected one per image ({images}) or one per caption ({captions})")
    if len(lines) != images:
        if len(set(lines)) == captions:
            return None
        names = lines[:: groups.captions]
        places = ((number, line, names[number // groups.captions]) for number, line in enumerate(lines))
        for number, line, name in places:
            if line != name:
                raise InputError(
                    f"{path} line {number + 1}: id '{line}', but the captions of that image begin with id '{name}'"
                )
        lines = names
    sources.refuse_repeated(lines, "id", lambda place: f"{path} image {place}")
    return lines


def _image_ids(source: Path, splits: list[_Split]) -> np.ndarray:
    running = np.arange(sum(split.images for split in splits))
    if any(split.names is None for split in splits):
        return running
    names = [name for split in splits for name in split.names or ()]
    if text.are_numbers(pa.array(names, pa.string())):
        numbers = np.array(names, dtype=np.int64)
        return numbers if len(np.unique(numbers)) == len(numbers) else running
    # Numbers may restart in every split, but a file name in two splits is the same image.
    sources.refuse_repeated(names, "id", lambda place: f"{source}/*_ids.txt image {place}")
    return running


def group(captions: int, digests: np.ndarray, per_image: int | None, where: str) -> Grouping:
    """The captions and rows of each image. captions: their number; digests: (rows, 32); per_image: captions, or None.

    VSE++ and its descendants divide the number of a caption by 5 when the counts differ and never when they agree, so a
    lost caption is not noticed and repeated rows count as images. Here the captions per image are captions / rows,
    which must be whole. When the counts agree, they are the greatest common divisor of the lengths of runs of equal
    rows, because two adjacent images may be equal. Raises InputError when nothing fits or the repetition is uneven."""
    rows = len(digests)
    if per_image is not None:
        return _group_by(captions, digests, per_image, where)
    if captions == rows:
        repeated = _repetition(digests, where)
        return Grouping(repeated, repeated)
    if captions % rows:
        raise InputError(
            f"{where}: {captions} captions, {rows} rows of features: not a multiple; there must be one row per image or per caption"
        )
    return Grouping(captions // rows, 1)


def _group_by(captions: int, digests: np.ndarray, per_image: int, where: str) -> Grouping:
    rows = len(digests)
    if captions == rows * per_image:
        return Grouping(per_image, 1)
    if captions != rows or rows % per_image:
        raise InputError(
            f"{where}: {captions} captions, {rows} rows of features: with captions_per_image {per_image} there must be "
            f"{per_image} captions a row, or as many rows as captions and a multiple of {per_image}"
        )
    groups = digests.reshape(-1, per_image, digests.shape[1])
    uneven = np.flatnonzero((groups != groups[:, :1]).any(axis=(1, 2)))
    if len(uneven):
        first = uneven[0] * per_image
        raise InputError(
            f"{where}: as many rows as captions, so captions_per_image {per_image} needs equal rows in groups of {per_image}; rows {first} to {first + per_image - 1} differ"
        )
    return Grouping(per_image, per_image)


def _repetition(digests: np.ndarray, where: str) -> int:
    changes = np.flatnonzero((digests[1:] != digests[:-1]).any(axis=1)) + 1
    lengths = np.diff(np.concatenate([[0], changes, [len(digests)]]))
    common = math.gcd(*lengths.tolist())
    repeats = lengths[lengths > 1].sum()
    if common == 1 and repeats * 2 > len(digests):
        raise InputError(
            f"{where}: {repeats} of {len(digests)} rows are equal to the row before or after them, but not in groups of one size, "
            "so nothing says which captions share an image; keep one row per image, or set captions_per_image"
        )
    return common
