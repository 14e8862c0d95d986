"""The vectors of one side, from whatever file, with the checks that every file has to pass. No files are read here."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int64

from pipeline.core.errors import InputError

_SHOWN = 3
_AT_ONCE = 8192


@dataclass(frozen=True)
class Vectors:
    """where: the file, for messages; key: image_id or caption_id, what ``ids`` are; image_ids: of captions, the image that
    each one describes, None where the file does not say."""

    where: str
    key: str
    ids: Int64[np.ndarray, " rows"]
    image_ids: Int64[np.ndarray, " rows"] | None
    vectors: Float32[np.ndarray, "rows dim"]

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]


def checked(
    where: str,
    key: str,
    ids: Int64[np.ndarray, " rows"],
    image_ids: Int64[np.ndarray, " rows"] | None,
    vectors: Float[np.ndarray, "rows dim"],
    similarity: str,
) -> Vectors:
    """vectors: float16, float32 or float64; kept as float32, and as unit vectors under similarity ``cosine``.

    Raises InputError on no rows, repeated ids, NaN or infinite values, values beyond float32, and vectors of length zero
    under ``cosine``, each with the count and the first ids.
    """
    if not vectors.size:
        raise InputError(f"{where}: no vectors: the array is {vectors.shape[0]} x {vectors.shape[1]}")
    values, counts = np.unique(ids, return_counts=True)
    _refuse(where, f"{key}s occur more than once", key, values[counts > 1])
    _refuse(where, "rows hold NaN or infinite values", key, ids[~np.isfinite(vectors).all(axis=1)])
    narrow = _of_length_one(where, key, ids, vectors) if similarity == "cosine" else vectors
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(narrow, dtype=np.float32)
    _refuse(where, "rows hold values too large for float32", key, ids[~np.isfinite(narrow).all(axis=1)])
    return Vectors(where, key, ids, image_ids, narrow)


def _of_length_one(
    where: str, key: str, ids: Int64[np.ndarray, " rows"], vectors: Float[np.ndarray, "rows dim"]
) -> Float32[np.ndarray, "rows dim"]:
    """Divided in float64, some rows at a time: the whole in float64 would be the largest array of all."""
    found = np.empty(vectors.shape, np.float32)
    zero = []
    for start in range(0, len(vectors), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        block = vectors[rows].astype(np.float64)
        # The largest value first: squares of very large and very small ones leave float64.
        block /= np.maximum(np.abs(block).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        lengths = np.sqrt(np.square(block).sum(axis=1, keepdims=True))
        zero.append(ids[rows][lengths[:, 0] == 0])
        found[rows] = block / np.where(lengths > 0, lengths, 1.0)
    what = "rows have length zero and no cosine; leave them out, or use --similarity dot"
    _refuse(where, what, key, np.concatenate(zero))
    return found


def must_fit(one: Vectors, other: Vectors) -> None:
    """Raises InputError unless both have the same width."""
    if one.dim != other.dim:
        raise InputError(
            f"{other.where}: vectors of {other.dim} values, those of {one.where} have {one.dim}; "
            "both must come from one model"
        )


def must_pair(images: Vectors, captions: Vectors) -> None:
    """Raises InputError when a caption's image is missing or an image has no caption."""
    assert captions.image_ids is not None
    missing = np.unique(captions.image_ids[~np.isin(captions.image_ids, images.ids)])
    if len(missing):
        raise InputError(
            f"{captions.where}: captions of {len(missing)} images that {images.where} does not hold: "
            f"image_id {_first(missing)}"
        )
    bare = images.ids[~np.isin(images.ids, captions.image_ids)]
    if len(bare):
        raise InputError(
            f"{images.where}: {len(bare)} images without a caption in {captions.where}: image_id {_first(bare)}; "
            "leave them out, or say with --qrels what is correct"
        )


def _refuse(where: str, what: str, key: str, wrong: np.ndarray) -> None:
    if len(wrong):
        raise InputError(f"{where}: {len(wrong)} {what}: {key} {_first(wrong)}")


def _first(ids: np.ndarray) -> str:
    return ", ".join(map(str, ids[:_SHOWN])) + (", ..." if len(ids) > _SHOWN else "")
