"""The vectors of one side: read from Parquet or .npy, with the checks that every file has to pass."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from vse_pipe.core import tables
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate import readers
from vse_pipe.evaluate.readers import Book

_AT_ONCE = 256  # rows of 1,024 numbers in float64 stay in the cache
_MANY = 1 << 26  # values of a side from which ``lean`` makes them float16: 10^6 x 512 take 1 GiB


@dataclass(frozen=True)
class Vectors:
    """where: the file, for messages. key: image_id or caption_id, the kind of ``ids``. image_ids: the image of each
    caption, None if the file has none. vectors: float32, or float16 where ``checked`` was asked to be lean. dropped: the
    images of dropped rows. model: run and digest of the model, if the file has them. book: of the call, for text ids."""

    where: str
    key: str
    ids: Int64[np.ndarray, " rows"]
    image_ids: Int64[np.ndarray, " rows"] | None
    vectors: Float[np.ndarray, "rows dim"]
    dropped: Int64[np.ndarray, " dropped"] = field(default_factory=lambda: np.zeros(0, np.int64))
    model: tuple[str, str] | None = None
    book: Book = field(default_factory=Book)

    @property
    def dim(self) -> int:
        return self.vectors.shape[1]

    @property
    def maker(self) -> str:
        """The model, as the end of a phrase in a message."""
        return f" of run {self.model[0]} (model {self.model[1][:12]})" if self.model else ""

    @property
    def owners(self) -> Int64[np.ndarray, " rows"]:
        return self.ids if self.image_ids is None else self.image_ids

    def only(self, mask: Bool[np.ndarray, " rows"]) -> "Vectors":
        if mask.all():  # a copy would be as large as all vectors
            return self
        image_ids = None if self.image_ids is None else self.image_ids[mask]
        return replace(self, ids=self.ids[mask], image_ids=image_ids, vectors=self.vectors[mask])


def checked(
    where: str,
    key: str,
    ids: Int64[np.ndarray, " rows"],
    image_ids: Int64[np.ndarray, " rows"] | None,
    vectors: Float[np.ndarray, "rows dim"],
    similarity: str,
    nan: str = "refuse",
    model: tuple[str, str] | None = None,
    book: Book | None = None,
    advice: bool = True,
    lean: bool = False,
) -> Vectors:
    """Checked float32 vectors; unit vectors under similarity ``cosine``. vectors: float16, float32 or float64. nan:
    ``refuse`` rows with NaN or infinite values, or ``drop`` them with a warning. book: the texts of ids, for messages.
    advice: messages name options of the command line. lean: for callers that keep both sides in memory: unit vectors
    under every similarity, in float16 where a side has more than 2^26 values.

    Raises InputError for no rows, repeated ids, NaN or infinite values, values beyond float32 where the length stays,
    and vectors of length zero under ``cosine``."""
    if not vectors.size:
        raise InputError(f"{where}: no vectors: the array is {vectors.shape[0]} x {vectors.shape[1]}")
    values, counts = np.unique(ids, return_counts=True)
    book = book or Book()
    refuse = partial(_refuse, where, key, book)
    refuse(f"{key}s occur more than once", values[counts > 1])
    finite = _finite(vectors)
    dropped = (ids if image_ids is None else image_ids)[~finite]
    if nan != "drop" or not finite.any():
        refuse("rows hold NaN or infinite values", ids[~finite], "; --nan drop leaves them out" * advice)
    elif len(dropped):
        first = book.first(key, ids[~finite])
        warn(f"{where}: {len(dropped)} rows hold NaN or infinite values and are left out: {key} {first}")
        ids, vectors, image_ids = ids[finite], vectors[finite], None if image_ids is None else image_ids[finite]
    # torch aligns memory for products; numpy's memory would be copied by ``scores._aligned``.
    narrow = torch.empty(vectors.shape, dtype=torch.float16 if lean and vectors.size > _MANY else torch.float32).numpy()
    if lean or similarity == "cosine":
        zero = _of_length_one(ids, vectors, narrow)
        remedy = "; leave them out, or use --similarity dot" if advice else "; leave them out, or take similarity='dot'"
        if similarity == "cosine":
            refuse("rows have length zero and no cosine", zero, remedy)
    else:
        with np.errstate(over="ignore"):
            narrow[:] = vectors
    refuse("rows hold values too large for float32", ids[~_finite(narrow)])
    return Vectors(where, key, ids, image_ids, narrow, dropped, model, book)


def _of_length_one(
    ids: Int64[np.ndarray, " rows"],
    vectors: Float[np.ndarray, "rows dim"],
    out: Float[np.ndarray, "rows dim"],
) -> Int64[np.ndarray, " zero"]:
    """Fill ``out``, and return the ids of vectors of length zero. Blocks of rows are divided in float64; all rows in
    float64 would be the largest array."""
    zero = []
    for rows in _blocks(len(vectors)):
        block = vectors[rows].astype(np.float64)
        # Divide by the largest value first: squares of very large or small values exceed float64.
        block /= np.maximum(np.abs(block).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        lengths = np.sqrt(np.square(block).sum(axis=1, keepdims=True))
        zero.append(ids[rows][lengths[:, 0] == 0])
        out[rows] = block / np.where(lengths > 0, lengths, 1.0)
    return np.concatenate(zero)


def _finite(vectors: Float[np.ndarray, "rows dim"]) -> Bool[np.ndarray, " rows"]:
    """Rows without NaN and infinite values."""
    finite = np.empty(len(vectors), bool)
    for rows in _blocks(len(vectors)):
        finite[rows] = np.isfinite(vectors[rows]).all(axis=1)
    return finite


def _blocks(rows: int) -> list[slice]:
    return [slice(start, start + _AT_ONCE) for start in range(0, rows, _AT_ONCE)]


def without_dropped(images: Vectors, captions: Vectors) -> tuple[Vectors, Vectors]:
    """Both sides without the captions of dropped images and the images that lost every caption."""
    if captions.image_ids is None:
        return images, captions
    remaining = captions.only(~np.isin(captions.owners, images.dropped))
    bare = np.isin(images.ids, captions.dropped) & ~np.isin(images.ids, remaining.owners)
    lost = int(bare.sum()), len(captions.ids) - len(remaining.ids)
    if any(lost):
        warn(f"with them {lost[0]} images and {lost[1]} captions of {images.where} and {captions.where} are left out")
    return images.only(~bare), remaining


def must_fit(left: Vectors, right: Vectors) -> None:
    """Raises InputError unless both have the same width and, if known, the same model."""
    if left.dim != right.dim or (left.model and right.model and left.model[1] != right.model[1]):
        raise InputError(
            f"{right.where}: vectors of {right.dim} values{right.maker}, those of {left.where} have {left.dim}{left.maker}; both must come from one model"
        )


def must_pair(images: Vectors, captions: Vectors) -> None:
    """Raises InputError when a caption's image is missing or an image has no caption."""
    assert captions.image_ids is not None
    missing = np.unique(captions.image_ids[~np.isin(captions.image_ids, images.ids)])
    if len(missing):
        raise InputError(
            f"{captions.where}: captions of {len(missing)} images that {images.where} does not hold: image_id {images.book.first('image_id', missing)}"
        )
    bare = images.ids[~np.isin(images.ids, captions.image_ids)]
    if len(bare):
        raise InputError(
            f"{images.where}: {len(bare)} images without a caption in {captions.where}: image_id "
            f"{images.book.first('image_id', bare)}; leave them out, or say with --qrels what is correct"
        )


def _refuse(where: str, key: str, book: Book, problem: str, wrong: np.ndarray, advice: str = "") -> None:
    if len(wrong):
        raise InputError(f"{where}: {len(wrong)} {problem}: {key} {book.first(key, wrong)}{advice}")


def read_images(
    path: Path,
    similarity: str,
    ids: Path | None = None,
    nan: str = "refuse",
    book: Book | None = None,
    lean: bool = False,
) -> Vectors:
    """Vectors from Parquet with columns image_id and embedding; or from .npy with ids from ``ids`` or 0, 1, 2, ...

    nan, lean: as in ``checked``. book: shared by the files of the call. Raises UsageError for other kinds of files and for
    Parquet together with ``ids``, InputError for unfit content."""
    return _read_side(path, "image_id", similarity, {"--image-ids": ids}, nan, book or Book(), lean)


def read_captions(
    path: Path,
    similarity: str,
    ids: Path | None = None,
    owners: Path | None = None,
    nan: str = "refuse",
    book: Book | None = None,
    lean: bool = False,
) -> Vectors:
    """Vectors from Parquet with columns caption_id, embedding and optionally image_id; or from .npy with ids from
    ``ids`` and image ids from ``owners``. Raises as ``read_images``."""
    files = {"--caption-ids": ids, "--caption-images": owners}
    return _read_side(path, "caption_id", similarity, files, nan, book or Book(), lean)


def _read_side(
    path: Path, key: str, similarity: str, files: dict[str, Path | None], nan: str, book: Book, lean: bool
) -> Vectors:
    """files: by option, the ids and the image ids that belong to an .npy file."""
    if path.suffix not in (".parquet", ".npy"):
        raise UsageError(f"{path}: unknown kind of file '{path.suffix}'; known: .parquet, .npy")
    where, image_ids = str(path), None
    if path.suffix == ".npy":
        ids, owners = [*files.values(), None][:2]
        vectors = readers.npy_vectors(path)
        if owners:
            image_ids = readers.npy_ids(owners, len(vectors), where, "image_id", book)
        if ids is None:
            numbers = book.numbers(key, where, np.arange(len(vectors)))
        else:
            numbers = readers.npy_ids(ids, len(vectors), where, key, book)
        return checked(where, key, numbers, image_ids, vectors, similarity, nan, book=book, lean=lean)
    for option, file in files.items():
        if file is not None:
            raise UsageError(f"{option} belongs to .npy files; {path} has ids of its own")
    table = readers.read_parquet(path, [key, "embedding"], ["image_id"] if key == "caption_id" else [])
    vectors = readers.parquet_vectors(path, table, key)
    if key == "caption_id" and "image_id" in table.column_names:
        image_ids = readers.parquet_ids(path, table, "image_id", book)
    numbers, about = readers.parquet_ids(path, table, key, book), tables.footer(table)
    # Files of other programs name no model.
    model = (about["run"], about["model_sha256"]) if {"run", "model_sha256"} <= set(about) else None
    del table  # as large as the vectors, and ``checked`` copies these
    return checked(where, key, numbers, image_ids, vectors, similarity, nan, model, book, lean=lean)
