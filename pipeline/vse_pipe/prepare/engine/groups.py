"""Which captions belong to which row of precomputed features, decided from the counts and the rows themselves."""

import math
from dataclasses import dataclass

import numpy as np

from vse_pipe.core.errors import InputError


@dataclass(frozen=True)
class Grouping:
    """Image k has captions ``k * captions`` and on, and its features in row ``k * rows``; both counts are per image."""

    captions: int
    rows: int


def group(captions: int, digests: np.ndarray, wanted: int | None, where: str) -> Grouping:
    """captions: how many there are; digests: (rows, 32), equal for equal rows; wanted: captions per image, or None.

    VSE++ and its descendants divide the caption's number by 5 whenever the counts differ and never when they agree,
    so a file that lost a caption is read without a word, and repeated rows count as so many images. Here the
    number of captions per image is captions / rows, which must be whole; where the counts agree, it is how often each
    row repeats its predecessor: the greatest common divisor of the lengths of the runs, as two images in a
    row may be equal. Raises InputError when nothing fits or the repetition is uneven.
    """
    rows = len(digests)
    if wanted is not None:
        return _as_told(captions, digests, wanted, where)
    if captions == rows:
        repeated = _repetition(digests, where)
        return Grouping(repeated, repeated)
    if captions % rows:
        raise InputError(
            f"{where}: {captions} captions, {rows} rows of features: not a multiple; there must be one row per image or per caption"
        )
    return Grouping(captions // rows, 1)


def _as_told(captions: int, digests: np.ndarray, wanted: int, where: str) -> Grouping:
    rows = len(digests)
    if captions == rows * wanted:
        return Grouping(wanted, 1)
    if captions != rows or rows % wanted:
        raise InputError(
            f"{where}: {captions} captions, {rows} rows of features: with captions_per_image {wanted} there must be "
            f"{wanted} captions a row, or as many rows as captions and a multiple of {wanted}"
        )
    groups = digests.reshape(-1, wanted, digests.shape[1])
    uneven = np.flatnonzero((groups != groups[:, :1]).any(axis=(1, 2)))
    if len(uneven):
        first = uneven[0] * wanted
        raise InputError(
            f"{where}: as many rows as captions, so captions_per_image {wanted} needs equal rows in groups of {wanted}; rows {first} to {first + wanted - 1} differ"
        )
    return Grouping(wanted, wanted)


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
