"""The images or the captions of one file, Parquet or .npy."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.core import tables
from vse_pipe.core.errors import UsageError
from vse_pipe.evaluate.external import npy, parquet
from vse_pipe.evaluate.external.book import Book
from vse_pipe.evaluate.external.vectors import Vectors, checked


def images(
    path: Path, similarity: str, ids: Path | None = None, nan: str = "refuse", book: Book | None = None
) -> Vectors:
    """Parquet with columns image_id and embedding; or .npy, whose ids are in ``ids`` or 0, 1, 2, ... without it.

    Raises UsageError for another kind of file and for ids given twice, InputError for unfit content. nan: as of ``vectors.checked``;
    book: of the other files of the call.
    """
    book = book or Book()
    if _is_parquet(path, [("--image-ids", ids)]):
        table = parquet.read(path, ["image_id", "embedding"])
        vectors, key, made = (
            parquet.vectors(path, table, "image_id"),
            parquet.ids(path, table, "image_id", book),
            _made(table),
        )
        del table  # as large as the vectors, of which another copy is made now
        return checked(str(path), "image_id", key, None, vectors, similarity, nan, made, book)
    vectors = npy.vectors(path)
    key = _ids(ids, vectors, path, "image_id", book)
    return checked(str(path), "image_id", key, None, vectors, similarity, nan, book=book)


def captions(
    path: Path,
    similarity: str,
    ids: Path | None = None,
    owners: Path | None = None,
    nan: str = "refuse",
    book: Book | None = None,
) -> Vectors:
    """Parquet with columns caption_id, embedding and, unless judgements say what is correct, image_id; or .npy, whose ids
    are in ``ids`` and the images they describe in ``owners``. Raises as ``images`` does."""
    book = book or Book()
    if _is_parquet(path, [("--caption-ids", ids), ("--caption-images", owners)]):
        table = parquet.read(path, ["caption_id", "embedding"], ["image_id"])
        vectors = parquet.vectors(path, table, "caption_id")
        found = parquet.ids(path, table, "image_id", book) if "image_id" in table.column_names else None
        key = parquet.ids(path, table, "caption_id", book)
        made = _made(table)
        del table
        return checked(str(path), "caption_id", key, found, vectors, similarity, nan, made, book)
    vectors = npy.vectors(path)
    found = npy.ids(owners, len(vectors), str(path), "image_id", book) if owners else None
    key = _ids(ids, vectors, path, "caption_id", book)
    return checked(str(path), "caption_id", key, found, vectors, similarity, nan, book=book)


def _made(table: pa.Table) -> tuple[str, str] | None:
    """What the footer of ``vse-pipe embed`` says of the model: run and digest; None in files of other programs."""
    about = tables.footer(table)
    return (about["run"], about["model_sha256"]) if {"run", "model_sha256"} <= set(about) else None


def _is_parquet(path: Path, beside: list[tuple[str, Path | None]]) -> bool:
    if path.suffix not in (".parquet", ".npy"):
        raise UsageError(f"{path}: unknown kind of file '{path.suffix}'; known: .parquet, .npy")
    for option, given in beside:
        if given is not None and path.suffix == ".parquet":
            raise UsageError(f"{option} belongs to .npy files; {path} has ids of its own")
    return path.suffix == ".parquet"


def _ids(ids: Path | None, vectors: np.ndarray, path: Path, key: str, book: Book) -> np.ndarray:
    if ids is None:
        return book.numbers(key, str(path), np.arange(len(vectors)))
    return npy.ids(ids, len(vectors), str(path), key, book)
