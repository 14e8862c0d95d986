"""``.npy`` and ``.npz`` files and word vectors, our own and those of
users: nothing is unpickled, and every size is checked."""

import codecs
import gzip
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence, Set
from io import BufferedIOBase, BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float32

from vse_pipe.core import memory, tables
from vse_pipe.core.errors import Damage, InputError, PipelineError, UsageError

_WHAT = "not a whole .npy file"


def open_npy(path: Path, damage: Damage) -> np.ndarray:
    """The memory map of a file of any type and shape, except objects. Raises ``damage`` for another kind of file,
    pickled objects or a length other than in its header."""
    with damage.named(path, _WHAT), warnings.catch_warnings():
        # Files written by Python 2 have "29000L" in the header, which numpy reads with a warning.
        warnings.simplefilter("ignore", UserWarning)
        array = np.lib.format.open_memmap(path, mode="r")  # noqa: TID251 (here it is bounded)
        _require_plain(array)
        size, promised = path.stat().st_size, array.offset + array.nbytes
        if size != promised:
            raise ValueError(f"{size} bytes, its header promises {promised}: shape {array.shape} of {array.dtype}")
    return array


def read_npz(path: Path, damage: Damage, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The arrays ``names`` of a ``.npz`` file, and those of ``optional`` that exist. Raises ``damage`` for another kind
    of file and pickled objects, InputError for too much memory."""
    with damage.named(path, f"no .npz file with plain arrays {' and '.join(names)}"), zipfile.ZipFile(path) as archive:
        members = {name: f"{name}.npy" for name in [*names, *optional]}
        present = {name: member for name, member in members.items() if name in names or member in archive.namelist()}
        memory.require(str(path), sum(archive.getinfo(member).file_size for member in present.values()))
        return {name: _member(archive.read(member)) for name, member in present.items()}


def _member(content: bytes) -> np.ndarray:
    try:
        array = np.lib.format.read_array(BytesIO(content), allow_pickle=False)
    except MemoryError as error:  # the header says more than the member holds
        raise ValueError(str(error)) from error
    _require_plain(array)
    return array


def _require_plain(array: np.ndarray) -> None:
    """Texts of no letters take no bytes in any number, and a letter each once they are used."""
    if not array.dtype.itemsize:
        raise ValueError(f"shape {array.shape} of {array.dtype}")


Vector = Float32[np.ndarray, " dim"]
_DAMAGE = Damage(InputError, "fetch it again")


def _npz_vectors(path: Path, vocabulary: Set[str]) -> Iterator[tuple[str, Vector]]:
    """(word, vector) of every word of the vocabulary in the arrays ``words`` and ``vectors``. Raises InputError."""
    words, vectors = read_npz(path, _DAMAGE, ("words", "vectors")).values()
    if words.dtype.kind != "U" or words.ndim != 1:
        raise InputError(f"{path}: words {words.dtype} {words.shape}, expected text (n,)")
    return _selected(path, words.tolist(), vectors, vocabulary)


def _npy_vectors(path: Path, names: Path, vocabulary: Set[str]) -> Iterator[tuple[str, Vector]]:
    """(word, vector) of every word of the vocabulary. names: file of the words in the order of the rows, one a line, or
    one text column of a Parquet file. The array stays on the disk. Raises InputError."""
    words = _word_column(names) if names.suffix == ".parquet" else _word_lines(names)
    return _selected(path, words, open_npy(path, _DAMAGE), vocabulary)


def _selected(
    path: Path, words: Sequence[str | None], vectors: np.ndarray, vocabulary: Set[str]
) -> Iterator[tuple[str, Vector]]:
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or len(words) != len(vectors) or vectors.shape[1] == 0:
        raise InputError(
            f"{path}: {len(words)} words and vectors {vectors.dtype} {vectors.shape}, expected floating point (words, D), D at least 1"
        )
    places = {
        word: place for place, word in reversed(list(enumerate(words))) if word is not None and word in vocabulary
    }
    for word, place in places.items():
        vector = vectors[place].astype(np.float32)
        if not np.isfinite(vector).all():
            raise InputError(f"{path} row {place}: the vector of '{word}' holds NaN or infinite values")
        yield word, vector


def _word_lines(path: Path) -> list[str]:
    memory.require_text(path)
    with _DAMAGE.named(path, "not UTF-8 text with a word a line"):
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _word_column(path: Path) -> list[str | None]:
    with tables.open_parquet(path, _DAMAGE) as file:
        texts = [one.name for one in file.schema if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)]
        if len(texts) != 1:
            raise InputError(f"{path}: expected one column of text, the words; found {', '.join(texts) or 'none'}")
        column = file.read(texts)[texts[0]]
        with file.named():  # bytes that are no text
            return column.to_pylist()


# ``.bin``: word2vec's binary form. ``.txt`` and ``.vec``: a word and its numbers on a line, with word2vec's first line
# "count dimensions" or, in GloVe's files, without. Both may be packed (``.gz``). ``.npz`` and ``.npy``: arrays.
# A word that occurs twice has its first vector.
_CHUNK = 2**20
_LONGEST_WORD = 4096
_LONGEST_LINE = 2**20
_MOST_DIMENSIONS = 2**20
_MOST_DIGITS = 18
_SHOWN = 40


def read_word_vectors(
    path: Path, vocabulary: Set[str], names: Path | None = None
) -> tuple[list[str], Float32[np.ndarray, "words dim"]]:
    """The words of the vocabulary in the file, sorted, and their vectors. names: file of the words of a ``.npy`` file.

    Raises UsageError for another kind of file and for missing or superfluous ``names``, InputError with the line or
    byte for a damaged file, changing dimensions, values that are not finite, or no word of the vocabulary.
    """
    kind = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    if (names is None) == (kind == "npy"):
        raise UsageError(f"{path}: a .npy file, and no other, needs the file of its words; see the option `words`")
    try:
        if names is not None:
            vectors = dict(_npy_vectors(path, names, vocabulary))
        elif kind == "npz" and not path.name.lower().endswith(".gz"):
            vectors = dict(_npz_vectors(path, vocabulary))
        elif kind in _FORMS:
            vectors = _packed(path, _FORMS[kind], vocabulary)
        else:
            raise UsageError(
                f"{path}: word vectors are read from .bin (word2vec), .txt or .vec (word2vec, GloVe), these also .gz, .npz, and .npy with the option `words`"
            )
    except PipelineError:
        raise
    # numpy and zipfile raise nearly any exception for odd files; the message must name the file.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: no readable file of word vectors ({reason})") from error
    if not vectors:
        raise InputError(f"{path}: knows none of the {len(vocabulary)} words of the captions")
    words = sorted(vectors)
    return words, np.stack([vectors[word] for word in words])


def _packed(path: Path, form: Callable, vocabulary: Set[str]) -> dict[str, Vector]:
    encoded = {word.encode(): word for word in vocabulary}
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            vectors: dict[str, Vector] = {}
            for place, word, vector in form(file, encoded, path):
                if not np.isfinite(vector).all():
                    raise InputError(f"{path} {place}: the vector of '{word}' holds NaN or infinite values")
                vectors.setdefault(word, vector)
            return vectors
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file ({error})") from error


def _text_vectors(file: BufferedIOBase, vocabulary: dict[bytes, str], path: Path) -> Iterator[tuple[str, str, Vector]]:
    """(place, word, vector) of every word of the vocabulary in a text file. The number of values is checked in every
    line."""
    count, dim, number, entries = None, None, 0, 0
    for number, raw in enumerate(iter(lambda: file.readline(_LONGEST_LINE + 1), b""), start=1):
        if len(raw) > _LONGEST_LINE:
            raise InputError(f"{path} line {number}: longer than {_LONGEST_LINE} bytes")
        line = (raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw).rstrip(b" \t\r\n")
        fields = line.count(b" ")
        if number == 1 and (header := _counts(line, f"{path} line 1")):
            count, dim = header
            continue
        dim = fields if dim is None else dim
        if not dim:
            raise InputError(f"{path} line {number}: vectors of 0 dimensions, expected a word and its numbers")
        try:
            word = line.split(b" ", 1)[0] if fields == dim else _spaced(line, dim)
            word.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{path} line {number}: not UTF-8 ({error.reason})") from error
        except ValueError as error:
            raise InputError(f"{path} line {number}: {fields} values, expected {dim}") from error
        entries += 1
        if word in vocabulary:
            yield f"line {number}", vocabulary[word], _numbers(line.split(b" ")[1:], path, number)
    if not entries or (count is not None and entries != count):
        raise InputError(f"{path}: ends after line {number} with {entries} words, expected {count or 'some'}")


def _counts(line: bytes, where: str) -> tuple[int, int] | None:
    parts = line.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        if max(map(len, parts)) > _MOST_DIGITS:
            raise InputError(f"{where}: a number of {max(map(len, parts))} digits, expected 'count dimensions'")
        return int(parts[0]), int(parts[1])
    return None


def _spaced(line: bytes, dim: int) -> bytes:
    """A word with spaces in it, which some GloVe files have. Raises ValueError when the line has one number too many."""
    word = line.rsplit(b" ", dim)[0]
    if len(line.split(b" ")) <= dim + 1:
        raise ValueError("too few values")
    try:
        float(word.rsplit(b" ", 1)[1])
    except ValueError:
        return word
    raise ValueError("too many values")


def _numbers(fields: list[bytes], path: Path, number: int) -> Vector:
    try:
        return np.array([float(field) for field in fields], dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} line {number}: {error}") from error


def _binary_vectors(
    file: BufferedIOBase, vocabulary: dict[bytes, str], path: Path
) -> Iterator[tuple[str, str, Vector]]:
    """(place, word, vector) of every word of the vocabulary. Words need not be UTF-8: some of GoogleNews' are not."""
    first = file.readline(_SHOWN)
    header = _counts(first.rstrip(b"\n"), f"{path} byte 0") if first.endswith(b"\n") else None
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
                raise InputError(
                    f"{path} byte {base + start}: no whole entry of {dim} dimensions for word {number + 1} of {count}; the file is cut short or of other dimensions"
                )
            buffer, base, start = buffer[start:] + more, base + start, 0
        word = buffer[start:end].lstrip(b"\n")
        if word in vocabulary:
            vector = np.frombuffer(buffer, "<f4", dim, end + 1).astype(np.float32)
            yield f"byte {base + start}", vocabulary[word], vector
        start = end + 1 + 4 * dim
    if (buffer[start:] + file.read(_SHOWN)).strip(b"\n"):
        raise InputError(f"{path} byte {base + start}: goes on after the {count} words it announces")


_FORMS = {"bin": _binary_vectors, "txt": _text_vectors, "vec": _text_vectors}
