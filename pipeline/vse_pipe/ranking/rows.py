"""Rows of vectors: checked and scaled where they come in; and equal rows."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.ranking.fragments import blocks, plain
from vse_pipe.ranking.split import Split

PRODUCTS = ("cosine", "dot")
_AT_ONCE = 256  # rows of 1,024 numbers in float64 stay in the cache
_KEY = 8  # values of a vector that tell most vectors apart


def checked(where: str, vectors: Float[np.ndarray, "rows dim"], similarity: str) -> Float[np.ndarray, "rows dim"]:
    """The vectors as float32, of length 1 under similarity ``cosine``. vectors: float16, float32 or
    float64.

    Raises UsageError for another similarity than PRODUCTS; InputError for no rows, NaN, values that
    are infinite or beyond float32, and vectors of length zero under ``cosine``."""

    def refuse(wrong: Bool[np.ndarray, " rows"], problem: str) -> None:
        if wrong.any():
            raise InputError(f"{where}: {wrong.sum()} {problem}, the first is row {wrong.argmax()} (counted from 0)")

    if similarity not in PRODUCTS:
        raise UsageError(unknown("similarity", similarity, PRODUCTS))
    if not vectors.size:
        raise InputError(f"{where}: no vectors: the array is {vectors.shape[0]} x {vectors.shape[1]}")
    refuse(~np.isfinite(vectors).all(axis=1), "rows hold NaN or infinite values")
    narrow = torch.empty(vectors.shape).numpy()  # memory as torch aligns it
    if similarity == "cosine":
        refuse(_scale(vectors, narrow), "rows have length zero, which have no cosine (compare by dot)")
    else:
        with np.errstate(over="ignore"):
            narrow[:] = vectors
    refuse(~np.isfinite(narrow).all(axis=1), "rows hold values too large for float32")
    return narrow


def _scale(vectors: Float[np.ndarray, "rows dim"], out: Float[np.ndarray, "rows dim"]) -> Bool[np.ndarray, " rows"]:
    """Fill ``out`` with vectors of length 1, and return which have length zero. Blocks of rows are
    divided in float64; all rows in float64 would be the largest array."""
    is_zero = np.empty(len(vectors), bool)
    for rows in blocks(len(vectors), _AT_ONCE):
        block = vectors[rows].astype(np.float64)
        # Divide by the largest value first: squares of very large or small values exceed float64.
        block /= np.maximum(np.abs(block).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        lengths = np.sqrt(np.square(block).sum(axis=1, keepdims=True))
        is_zero[rows] = lengths[:, 0] == 0
        out[rows] = block / np.where(lengths > 0, lengths, 1.0)
    return is_zero


def require_distinct(where: str, vectors: Float[Tensor, "rows dim"], owners: Int64[np.ndarray, " captions"]) -> None:
    """Raises InputError where most images have an equal one and each has a caption of its own: a
    picture that lies once for each caption, so most correct captions would count as wrong. owners:
    the image of each caption."""
    if len(np.unique(owners)) < len(owners):
        return
    for part in (vectors[:, :_KEY], vectors):
        _, counts = np.unique(_as_bytes(part), return_counts=True)
        if counts[counts > 1].sum() * 2 <= len(vectors) or len(counts) == 1:
            return
    raise InputError(
        f"{where}: {len(vectors):,} images have {len(counts):,} different vectors; keep one of each, and name it as the "
        "image of all its captions"
    )


def require_others(ranked: Split, further: Split | None, name: str) -> None:
    """Raises InputError when most ranked images or captions are among the ``further`` ones too,
    whatever their ids. A few may be, such as captions of equal words; fragments are not compared.
    name: of the further ones."""
    for kind in ("images", "captions") if further is not None else ():
        sides = getattr(ranked, kind), getattr(further, kind)
        if not (all(map(plain, sides)) and len(sides[1])):
            continue
        count = int(np.isin(_as_bytes(sides[0]), _as_bytes(sides[1])).sum())
        if 2 * count > len(sides[0]):
            raise InputError(
                f"{count} of the {len(sides[0])} {kind} that are ranked are in the {name} too: these have to be other vectors"
            )


def _as_bytes(vectors: Float[Tensor, "rows dim"]) -> np.ndarray:
    rows = np.ascontiguousarray(vectors.cpu().numpy())
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
