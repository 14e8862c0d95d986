"""Word vectors in the forms that word2vec, GloVe and numpy write, for the words of a vocabulary.

``.bin``: word2vec's binary form. ``.txt`` and ``.vec``: a word and its numbers on a line, with word2vec's first line
"count dimensions" or, in GloVe's files, without. Both may be packed (``.gz``). ``.npz``: arrays. A word that occurs
twice has its first vector.
"""

import codecs
import gzip
from collections.abc import Callable, Iterator, Set
from functools import partial
from io import BufferedIOBase
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from vse_pipe.core import arrays
from vse_pipe.core.errors import Damage, InputError, UsageError

Vector = Float32[np.ndarray, " dim"]
# (place, word, vector)
Entries = Iterator[tuple[str, str, Vector]]
_DAMAGE = Damage(InputError, "fetch it again")
_CHUNK = 2**20
_LONGEST_WORD = 4096
_LONGEST_LINE = 2**20
_MOST_DIMENSIONS = 2**20
_SHOWN = 40


def read_word_vectors(path: Path, vocabulary: Set[str]) -> tuple[list[str], Float32[np.ndarray, "words dim"]]:
    """The words of the vocabulary in the file, sorted, and their vectors.

    Raises UsageError for another kind of file, InputError with the line or byte for a damaged file, changing
    dimensions, values that are not finite, or no word of the vocabulary.
    """
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in _FORMS:
        raise UsageError(f"{path}: word vectors are read from .bin, .txt or .vec, these also .gz, and .npz")
    vectors: dict[str, Vector] = {}
    encoded = {word.encode(): word for word in vocabulary}
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with _DAMAGE.named(path, "no readable file of word vectors"), opened(path, "rb") as file:
        for place, word, vector in _FORMS[kind](file, encoded, path):
            if not np.isfinite(vector).all():
                raise InputError(f"{path} {place}: the vector of '{word}' holds NaN or infinite values")
            vectors.setdefault(word, vector)
    if not vectors:
        raise InputError(f"{path}: knows none of the {len(vocabulary)} words of the captions")
    words = sorted(vectors)
    return words, np.stack([vectors[word] for word in words])


def _npz_vectors(file: BufferedIOBase, vocabulary: dict[bytes, str], path: Path) -> Entries:
    words, vectors = arrays.read_npz(path, _DAMAGE, ("words", "vectors")).values()
    if words.dtype.kind != "U" or words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise InputError(f"{path}: words {words.dtype} {words.shape} and vectors {vectors.shape}, expected (n,) (n, D)")
    for row, word in enumerate(words.tolist()):
        if word.encode() in vocabulary:
            yield f"row {row}", word, vectors[row].astype(np.float32)


def _text_vectors(file: BufferedIOBase, vocabulary: dict[bytes, str], path: Path) -> Entries:
    """The number of values is checked in every line. Some of GloVe's words have spaces in them."""
    read = partial(file.readline, _LONGEST_LINE)
    first = read().removeprefix(codecs.BOM_UTF8)
    header = _counts(first)
    count, dim = header or (None, None)
    entries = 0
    for number, raw in enumerate(chain([] if header else [first], iter(read, b"")), 2 if header else 1):
        line = raw.rstrip(b" \t\r\n")
        fields = line.count(b" ")
        dim = fields if dim is None else dim
        word = line.split(b" ", 1)[0] if fields == dim else b" ".join(line.split(b" ")[: -dim or None])
        if not dim or not word:
            raise InputError(f"{path} line {number}: {fields} values, expected {dim or 'a word and its numbers'}")
        try:
            word.decode()
            if word in vocabulary:
                numbers = np.array([float(value) for value in line.split(b" ")[-dim:]], np.float32)
                yield f"line {number}", vocabulary[word], numbers
        except ValueError as error:
            raise InputError(f"{path} line {number}: {error}") from error
        entries += 1
    if count is not None and entries != count:
        raise InputError(f"{path}: ends with {entries} words, expected {count}")


def _counts(line: bytes) -> tuple[int, int] | None:
    """word2vec's first line "count dimensions"."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        return int(fields[0]), int(fields[1])
    return None


def _binary_vectors(file: BufferedIOBase, vocabulary: dict[bytes, str], path: Path) -> Entries:
    """Words need not be UTF-8: some of GoogleNews' are not."""
    first = file.readline(_SHOWN)
    header = _counts(first) if first.endswith(b"\n") else None
    if header is None or not all(header):
        raise InputError(f"{path} byte 0: begins with {first!r}, expected word2vec's 'count dimensions'")
    count, dim = header
    if dim > _MOST_DIMENSIONS:
        raise InputError(f"{path} byte 0: announces {dim} dimensions, expected no more than {_MOST_DIMENSIONS}")
    buffer, start, base = b"", 0, len(first)
    for number in range(count):
        while (end := buffer.find(b" ", start, start + _LONGEST_WORD)) < 0 or len(buffer) <= end + 4 * dim:
            more = file.read(_CHUNK)
            if not more or (end < 0 and len(buffer) - start > _LONGEST_WORD):
                entry = f"entry of {dim} dimensions for word {number + 1} of {count}"
                raise InputError(
                    f"{path} byte {base + start}: no whole {entry}; it is cut short or of other dimensions"
                )
            buffer, base, start = buffer[start:] + more, base + start, 0
        word = buffer[start:end].lstrip(b"\n")
        if word in vocabulary:
            vector = np.frombuffer(buffer, "<f4", dim, end + 1).astype(np.float32)
            yield f"byte {base + start}", vocabulary[word], vector
        start = end + 1 + 4 * dim
    if (buffer[start:] + file.read(_SHOWN)).strip(b"\n"):
        raise InputError(f"{path} byte {base + start}: goes on after the {count} words it announces")


_FORMS: dict[str, Callable[..., Entries]] = {
    "bin": _binary_vectors,
    "txt": _text_vectors,
    "vec": _text_vectors,
    "npz": _npz_vectors,
}
