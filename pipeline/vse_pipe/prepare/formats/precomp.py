"""VSE++ and SCAN's precomputed features: ``<split>_ims.npy``, ``<split>_caps.txt`` and, where it exists, ``<split>_ids.txt``.

The layout of Kiros et al. as VSE++, SCAN, SGRAF, NCR and L2RM read it. Differs from the authors' loaders: see
``_groups.group``; and the development split is read whole (they cut it after 5000 captions).
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import memory, text
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.formats.options import PrecompOptions as Params
from vse_pipe.prepare.source import (
    Grouping,
    Source,
    Splits,
    caption_text,
    existing,
    group,
    open_array,
    read_lines,
    row_digests,
    split_of,
    texts,
)


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


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder. ``file`` is ``<split>_ims.npy#<row>`` and sha256 that of the row's bytes as stored.

    image_id is the number in ids.txt where every split has whole numbers, none of them twice; else running numbers,
    as caption_id always is. Raises InputError: a missing, truncated or pickled file, captions and rows that do
    not fit together, splits with different numbers of captions an image that nobody asked for, an empty caption or one that is not UTF-8, ids that are duplicated or too few.
    """
    existing(source)
    _warn_of_first_1k(source, params)
    splits = [_read_split(source, prefix, params, out) for prefix in params.prefixes]
    _must_agree(source, splits, params)
    ids, tables = _image_ids(source, splits), Splits(out)
    for split, split_ids in zip(splits, np.split(ids, np.cumsum([split.images for split in splits])[:-1]), strict=True):
        name = split_of(split.prefix.removesuffix("all"), split.prefix)
        tables.add(split.prefix, name, split_ids, split.digests, split.captions, split.broken)
    return tables.source(source)


def _warn_of_first_1k(source: Path, params: Params) -> None:
    # Figures of "test" under the 5K protocol are a recurrent mistake (SCAN #14, SGRAF #7): silent only when asked for.
    unsaid = "test" in params.splits and "test" not in params.model_fields_set
    if unsaid and (source / "testall_ims.npy").exists():
        warn(
            f"{source} has testall_ims.npy too; reading test_ims.npy (COCO: the first 1,000 images). Set `test` to test or testall"
        )


def _read_split(source: Path, prefix: str, params: Params, out: Path) -> _Split:
    features, listed = source / f"{prefix}_ims.npy", source / f"{prefix}_caps.txt"
    lines = enumerate(read_lines(listed), start=1)
    captions = texts(out, (caption_text(line, f"{listed} line {number}") for number, line in lines))
    if not len(captions):
        raise InputError(f"{listed}: no captions")
    digests, broken = row_digests(open_array(features), features)
    groups = group(len(captions), digests, _captions_per_image(params, prefix), f"{listed} and {features.name}")
    names = _names(source / f"{prefix}_ids.txt", len(captions), groups)
    unfit = [broken[row] for row in broken if row % groups.rows == 0]
    return _Split(prefix, captions, groups, digests, names, unfit)


def _captions_per_image(params: Params, prefix: str) -> int | None:
    """Captions an image that the parameters ask for; None to infer them."""
    counts = params.captions_per_image
    if not isinstance(counts, dict):
        return counts
    return next((count for split, count in counts.items() if split == prefix.removesuffix("all")), None)


def _must_agree(source: Path, splits: list[_Split], params: Params) -> None:
    """A file of features that lost rows can still divide the captions, into groups that are too large."""
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
    """One name per image, whether the file has a line per image or per caption; None without a file.

    Lines per caption that all differ number the captions, so they name no image.
    """
    if not path.exists():
        return None
    memory.require_text(path)
    lines = [line.strip() for line in read_lines(path)]
    images = captions // groups.captions
    if len(lines) not in (images, captions):
        raise InputError(f"{path}: {len(lines)} ids, expected one per image ({images}) or one per caption ({captions})")
    if len(lines) != images:
        if len(set(lines)) == captions:
            return None
        lines = _common_names(path, lines, groups.captions)
    _refuse_duplicates(path, lines)
    return lines


def _common_names(path: Path, lines: list[str], size: int) -> list[str]:
    names = lines[::size]
    for number, line in enumerate(lines):
        if line != names[number // size]:
            raise InputError(
                f"{path} line {number + 1}: id '{line}', but the {size} captions of that image begin with id '{names[number // size]}'"
            )
    return names


def _refuse_duplicates(path: Path, names: list[str]) -> None:
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise InputError(f"{path}: id '{name}' names {times} images; ids must be unique")


def _image_ids(source: Path, splits: list[_Split]) -> np.ndarray:
    running = np.arange(sum(split.images for split in splits))
    if any(split.names is None for split in splits):
        return running
    names = [name for split in splits for name in split.names or ()]
    if text.are_numbers(pa.array(names, pa.string())):
        numbers = np.array(names, dtype=np.int64)
        return numbers if len(np.unique(numbers)) == len(numbers) else running
    # Numbers may start again in every split; a file name in two splits is one image in both.
    _refuse_duplicates(source / "*_ids.txt", names)
    return running
