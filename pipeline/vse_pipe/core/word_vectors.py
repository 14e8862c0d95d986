"""Word vectors in the forms that word2vec, GloVe and numpy write, for the words of a vocabulary.

``.bin``: word2vec's binary form. ``.txt`` and ``.vec``: a word and its numbers on a line, with
word2vec's first line "count dimensions" or, in GloVe's files, without. Both may be packed
(``.gz``). ``.npz``: arrays. A word that occurs twice has its first vector."""

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
Entries = Iterator[tuple[str, Vector]]
_MOST_DIMENSIONS = 2**20
_LONGEST_LINE = 2**20
_CHUNK = 2**16


def read_word_vectors(path: Path, vocabulary: Set[str]) -> tuple[list[str], Float32[np.ndarray, "words dim"]]:
    """The words of the vocabulary in the file, sorted, and their vectors.

    Raises UsageError for another kind of file, InputError for a damaged one, values that are not
    finite, or no word of the vocabulary."""
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if kind not in _FORMS:
        raise UsageError(f"{path}: word vectors are read from .bin, .txt or .vec, these also .gz, and .npz")
    vectors: dict[str, Vector] = {}
    encoded = {word.encode(): word for word in vocabulary}
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with damaged(path, "no readable file of word vectors", InputError), opened(path, "rb") as file:
        for word, vector in _FORMS[kind](file, encoded, path):
            if not np.isfinite(vector).all():
                raise InputError(f"{path}: the vector of '{word}' holds NaN or infinite values")
            vectors.setdefault(word, vector)
    if not vectors:
        raise InputError(f"{path}: knows none of the {len(vocabulary)} words of the captions")
    words = sorted(vectors)
    return words, np.stack([vectors[word] for word in words])


def _npz_vectors(file: BinaryIO, vocabulary: dict[bytes, str], path: Path) -> Entries:
    words, vectors = arrays.read_npz(path, InputError, ("words", "vectors")).values()
    if words.dtype.kind != "U" or words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise InputError(f"{path}: words {words.dtype} {words.shape} and vectors {vectors.shape}, expected (n,) (n, D)")
    for word, vector in zip(words.tolist(), vectors, strict=True):
        if word.encode() in vocabulary:
            yield word, vector.astype(np.float32)


def _text_vectors(file: BinaryIO, vocabulary: dict[bytes, str], path: Path) -> Entries:
    """Some of GloVe's words have spaces in them, which no word of a caption has."""
    lines = iter(partial(file.readline, _LONGEST_LINE), b"")
    first = next(lines, b"")
    header = [int(field) for field in first.split() if field.isdigit()]
    has_header = len(header) == len(first.split()) == 2
    dim = header[1] if has_header else len(first.split()) - 1
    number = 0
    for number, line in enumerate(lines if has_header else chain([first], lines), 1):
        # A line is split only where it must be: a file has millions.
        if (word := line[: line.find(b" ")]) in vocabulary:
            values = line.split()[1:]
            if not dim or len(values) < dim:
                raise InputError(f"{path} line {number + has_header}: {len(values)} values, expected {dim}")
            if len(values) == dim:
                yield vocabulary[word], np.array(values, np.float32)
    if has_header and number != header[0]:
        raise InputError(f"{path}: ends with {number} words, expected {header[0]}")


def _binary_vectors(file: BinaryIO, vocabulary: dict[bytes, str], path: Path) -> Entries:
    """Words need not be UTF-8: some of GoogleNews' are not."""
    count, dim = map(int, file.readline(_CHUNK).split())
    if not 0 < dim <= _MOST_DIMENSIONS:
        raise InputError(f"{path}: {dim} dimensions")
    rest, size = b"", 4 * dim
    for number in range(1, count + 1):
        while (end := rest.find(b" ")) < 0 or len(rest) <= end + size:
            more = file.read(_CHUNK)
            if not more or len(rest) > _CHUNK + size:
                raise InputError(f"{path}: no whole entry of {dim} dimensions for word {number} of {count}")
            rest += more
        word, end = rest[:end].lstrip(b"\n"), end + 1
        if word in vocabulary:
            yield vocabulary[word], np.frombuffer(rest, "<f4", dim, end).astype(np.float32)
        rest = rest[end + size :]
    if (rest + file.read(_CHUNK)).strip(b"\n"):
        raise InputError(f"{path}: goes on after the {count} words it announces")


_FORMS: dict[str, Callable[..., Entries]] = {
    "bin": _binary_vectors,
    "txt": _text_vectors,
    "vec": _text_vectors,
    "npz": _npz_vectors,
}
