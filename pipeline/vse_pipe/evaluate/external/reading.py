"""x"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import tables
from vse_pipe.core.errors import UsageError
from vse_pipe.evaluate.external import readers
from vse_pipe.evaluate.external.readers import Book
from vse_pipe.evaluate.external.vectors import Vectors, checked


def read_images(
    path: Path, similarity: str, ids: Path | None = None, nan: str = "refuse", book: Book | None = None
) -> Vectors:
    """Vectors from Parquet with columns image_id and embedding; or from .npy with ids from ``ids`` or 0, 1, 2, ...

    nan: as in ``vectors.checked``. book: shared by the files of the call. Raises UsageError for other kinds of files
    and for Parquet together with ``ids``, InputError for unfit content."""
    book = book or Book()
    if _is_parquet(path, [("--image-ids", ids)]):
        table = readers.read_parquet(path, ["image_id", "embedding"])
        vectors = readers.parquet_vectors(path, table, "image_id")
        key, model = readers.parquet_ids(path, table, "image_id", book), _model_of(table)
        del table  # as large as the vectors, and ``checked`` copies these
        return checked(str(path), "image_id", key, None, vectors, similarity, nan, model, book)
    vectors = readers.npy_vectors(path)
    key = _ids(ids, vectors, path, "image_id", book)
    return checked(str(path), "image_id", key, None, vectors, similarity, nan, book=book)


def read_captions(
    path: Path,
    similarity: str,
    ids: Path | None = None,
    owners: Path | None = None,
    nan: str = "refuse",
    book: Book | None = None,
) -> Vectors:
    """Vectors from Parquet with columns caption_id, embedding and optionally image_id; or from .npy with ids from
    ``ids`` and image ids from ``owners``. Raises as ``read_images``."""
    book = book or Book()
    if _is_parquet(path, [("--caption-ids", ids), ("--caption-images", owners)]):
        table = readers.read_parquet(path, ["caption_id", "embedding"], ["image_id"])
        vectors = readers.parquet_vectors(path, table, "caption_id")
        image_ids = readers.parquet_ids(path, table, "image_id", book) if "image_id" in table.column_names else None
        key = readers.parquet_ids(path, table, "caption_id", book)
        model = _model_of(table)
        del table
        return checked(str(path), "caption_id", key, image_ids, vectors, similarity, nan, model, book)
    vectors = readers.npy_vectors(path)
    image_ids = readers.npy_ids(owners, len(vectors), str(path), "image_id", book) if owners else None
    key = _ids(ids, vectors, path, "caption_id", book)
    return checked(str(path), "caption_id", key, image_ids, vectors, similarity, nan, book=book)


def _model_of(table: pa.Table) -> tuple[str, str] | None:
    """Run and digest of the model in a file of ``vse-pipe embed``; None for files of other programs."""
    about = tables.footer(table)
    return (about["run"], about["model_sha256"]) if {"run", "model_sha256"} <= set(about) else None


def _is_parquet(path: Path, options: list[tuple[str, Path | None]]) -> bool:
    if path.suffix not in (".parquet", ".npy"):
        raise UsageError(f"{path}: unknown kind of file '{path.suffix}'; known: .parquet, .npy")
    for option, file in options:
        if file is not None and path.suffix == ".parquet":
            raise UsageError(f"{option} belongs to .npy files; {path} has ids of its own")
    return path.suffix == ".parquet"


def _ids(ids: Path | None, vectors: np.ndarray, path: Path, key: str, book: Book) -> np.ndarray:
    if ids is None:
        return book.numbers(key, str(path), np.arange(len(vectors)))
    return readers.npy_ids(ids, len(vectors), str(path), key, book)
