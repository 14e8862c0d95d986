"""Word vectors as arrays: ``.npz`` with words and vectors, ``.npy`` with the words in a file of their own."""

from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float32

from vse_pipe.core import arrays, memory, parquet
from vse_pipe.core.damage import Damage
from vse_pipe.core.errors import InputError

Vector = Float32[np.ndarray, " dim"]
_DAMAGE = Damage(InputError, "fetch it again")


def npz(path: Path, wanted: Set[str]) -> Iterator[tuple[str, Vector]]:
    """(word, vector) of every wanted word of the arrays ``words`` and ``vectors``. Raises InputError."""
    words, vectors = arrays.packed(path, _DAMAGE, ("words", "vectors")).values()
    if words.dtype.kind != "U" or words.ndim != 1:
        raise InputError(f"{path}: words {words.dtype} {words.shape}, expected text (n,)")
    return _chosen(path, words.tolist(), vectors, wanted)


def npy(path: Path, names: Path, wanted: Set[str]) -> Iterator[tuple[str, Vector]]:
    """(word, vector) of every wanted word. names: its words in the order of the rows, a line each, or the one column of text
    of a Parquet file. The array stays on the disk. Raises InputError."""
    found = _column(names) if names.suffix == ".parquet" else _lines(names)
    return _chosen(path, found, arrays.opened(path, _DAMAGE), wanted)


def _chosen(
    path: Path, words: Sequence[str | None], vectors: np.ndarray, wanted: Set[str]
) -> Iterator[tuple[str, Vector]]:
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or len(words) != len(vectors) or vectors.shape[1] == 0:
        raise InputError(
            f"{path}: {len(words)} words and vectors {vectors.dtype} {vectors.shape}, "
            "expected floating point (words, D), D at least 1"
        )
    places = {word: place for place, word in reversed(list(enumerate(words))) if word is not None and word in wanted}
    for word, place in places.items():
        vector = vectors[place].astype(np.float32)
        if not np.isfinite(vector).all():
            raise InputError(f"{path} row {place}: the vector of '{word}' holds NaN or infinite values")
        yield word, vector


def _lines(path: Path) -> list[str]:
    memory.require_text(path)
    with _DAMAGE.named(path, "not UTF-8 text with a word a line"):
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _column(path: Path) -> list[str | None]:
    with parquet.opened(path, _DAMAGE) as file:
        texts = [one.name for one in file.schema if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)]
        if len(texts) != 1:
            raise InputError(f"{path}: expected one column of text, the words; found {', '.join(texts) or 'none'}")
        column = file.read(texts)[texts[0]]
        with file.named():  # bytes that are no text
            return column.to_pylist()
