"""Word vectors in the forms that word2vec, GloVe and numpy write, for the words of a vocabulary.

``.bin``: word2vec's binary form. ``.txt`` and ``.vec``: a word and its numbers on a line, with
word2vec's first line "count dimensions" or, in GloVe's files, without. Both may be packed
(``.gz``). ``.npz``: arrays. A word that occurs twice has its first vector.
"""

import gzip
from collections.abc import Callable, Iterator, Set
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Float32

from vse_pipe.core import arrays
from vse_pipe.core.errors import InputError, UsageError, damaged

Vector = Float32[np.ndarray, " dim"]
# (place, word, vector)
Entries = Iterator[tuple[str, str, Vector]]
_LONGEST_WORD = 4096
_LONGEST_LINE = 2**20
_MOST_DIMENSIONS = 2**20
_SHOWN, _CHUNK = 40, 2**16
_BLANK = b" \t\r\n"


def read_word_vectors(path: Path, vocabulary: Set[str]) -> tuple[list[str], Float32[np.ndarray, "words dim"]]:
    """The words of the vocabulary in the file, sorted, and their vectors.

    Raises UsageError for another kind of file, InputError with the line or byte for a damaged file,
    changing dimensions, values that are not finite, or no word of the vocabulary.
    """
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in _FORMS:
        raise UsageError(f"{path}: word vectors are read from .bin, .txt or .vec, these also .gz, and .npz")
    vectors: dict[str, Vector] = {}
    encoded = {word.encode(): word for word in vocabulary}
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with damaged(path, "no readable file of word vectors", InputError), opened(path, "rb") as file:
        for place, word, vector in _FORMS[kind](file, encoded, path):
            if not np.isfinite(vector).all():
                raise InputError(f"{path} {place}: the vector of '{word}' holds NaN or infinite values")
            vectors.setdefault(word, vector)
    if not vectors:
        raise InputError(f"{path}: knows none of the {len(vocabulary)} words of the captions")
    words = sorted(vectors)
    return words, np.stack([vectors[word] for word in words])


def _npz_vectors(file: BinaryIO, vocabulary: dict[bytes, str], path: Path) -> Entries:
    words, vectors = arrays.read_npz(path, InputError, ("words", "vectors")).values()
    if words.dtype.kind != "U" or words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise InputError(f"{path}: words {words.dtype} {words.shape} and vectors {vectors.shape}, expected (n,) (n, D)")
    for row, word in enumerate(words.tolist()):
        if word.encode() in vocabulary:
            yield f"row {row}", word, vectors[row].astype(np.float32)


def _text_vectors(file: BinaryIO, vocabulary: dict[bytes, str], path: Path) -> Entries:
    """The number of values is checked in every line. Some of GloVe's words have spaces in them."""
    lines = iter(partial(file.readline, _LONGEST_LINE), b"")
    first = next(lines, b"")
    header = _counts(first)
    count, dim = header or (None, first.rstrip(_BLANK).count(b" "))
    entries = 0
    for number, line in enumerate(lines if header else chain([first], lines), 2 if header else 1):
        line = line.rstrip(_BLANK)
        fields = line.count(b" ")
        # A line is split only where it must be: a file has millions.
        word = line[: line.find(b" ")] if fields == dim else line.rsplit(b" ", dim)[0]
        if not dim or not word or fields < dim:
            raise InputError(f"{path} line {number}: {fields} values, expected {dim or 'a word and its numbers'}")
        if word in vocabulary:
            values = line.rsplit(b" ", dim)[1:]
            try:
                yield f"line {number}", vocabulary[word], np.array([float(value) for value in values], np.float32)
            except ValueError as error:
                raise InputError(f"{path} line {number}: {error}") from error
        entries += 1
    if count not in (None, entries):
        raise InputError(f"{path}: ends with {entries} words, expected {count}")


def _counts(line: bytes) -> tuple[int, int] | None:
    """word2vec's first line "count dimensions"."""
    fields = line.split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 2 and all(map(bytes.isdigit, fields)) else None


def _binary_vectors(file: BinaryIO, vocabulary: dict[bytes, str], path: Path) -> Entries:
    """Words need not be UTF-8: some of GoogleNews' are not."""
    first = file.readline(_SHOWN)
    count, dim = _counts(first) or (0, 0)
    if not count or not 0 < dim <= _MOST_DIMENSIONS or not first.endswith(b"\n"):
        raise InputError(f"{path} byte 0: begins with {first!r}, expected word2vec's 'count dimensions'")
    rest, place = b"", len(first)
    for number in range(1, count + 1):
        while (end := rest.find(b" ")) < 0 or len(rest) <= end + 4 * dim:
            more = file.read(_CHUNK)
            if not more or (end < 0 and len(rest) > _LONGEST_WORD):
                entry = f"entry of {dim} dimensions for word {number} of {count}"
                raise InputError(f"{path} byte {place}: no whole {entry}; it is cut short or of other dimensions")
            rest += more
        word, size = rest[:end].lstrip(b"\n"), end + 1 + 4 * dim
        if word in vocabulary:
            vector = np.frombuffer(rest, "<f4", dim, end + 1).astype(np.float32)
            yield f"byte {place}", vocabulary[word], vector
        rest, place = rest[size:], place + size
    if (rest + file.read(_SHOWN)).strip(b"\n"):
        raise InputError(f"{path} byte {place}: goes on after the {count} words it announces")


_FORMS: dict[str, Callable[..., Entries]] = {
    "bin": _binary_vectors,
    "txt": _text_vectors,
    "vec": _text_vectors,
    "npz": _npz_vectors,
}
