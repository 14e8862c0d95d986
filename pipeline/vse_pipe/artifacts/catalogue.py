"""What an id of a data set stands for: its picture, caption, split and name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64

from vse_pipe.artifacts import captions, images, names
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import tables, text
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import inside, require
from vse_pipe.pictures.address import path_of
from vse_pipe.pictures.images import page_bytes


@dataclass(frozen=True)
class Catalogue:
    """The tables of data/prepare/<dataset>/. names: text ids, None for numbers."""

    folder: Path
    images: pa.Table
    captions: pa.Table
    names: TextIds | None = None

    @classmethod
    def read(cls, folder: Path) -> "Catalogue":
        """Raises InputError where it is not prepared, and as the readers of the tables."""
        for table in (images, captions):
            require(folder / table.NAME)
        pictures, texts = (tables.read(folder / table.NAME, table.SCHEMA) for table in (images, captions))
        if names.NAME in tables.footer(pictures):
            require(folder / names.NAME)
        return cls(folder, pictures, texts, names.read(folder))

    @property
    def dataset(self) -> str:
        return self.folder.name

    @property
    def root(self) -> Path:
        """The folder of the names of files."""
        return images.root(self.images)

    def labels(self, key: str, ids: Int64[np.ndarray, " ids"]) -> np.ndarray:
        """The ids as the data set has them, text or numbers. key: image_id or caption_id."""
        texts = None if self.names is None else self.names.texts(key, ids)
        return ids if texts is None else texts.to_numpy(zero_copy_only=False)

    def label(self, key: str, number: int) -> int | str:
        return number if self.names is None else self.names.label(key, number)

    @property
    def has_named_images(self) -> bool:
        """Are the ids of images text?"""
        return self.names is not None and self.names.has("image_id")

    def image_number(self, image_id: int | str) -> int:
        """The number of an image by the data set's own id. Raises InputError for an unknown name,
        UsageError for text where ids are numbers."""
        if self.names is not None and self.has_named_images:
            number = self.names.number("image_id", str(image_id))
            if number is None:
                raise InputError(f"data set '{self.dataset}' has no image {text.shown_id(str(image_id))}")
            return number
        try:
            return int(image_id)
        except ValueError as error:
            name = text.shown_id(str(image_id))
            raise UsageError(f"image_id must be a whole number, got {name}") from error

    def fitting(self, conditions: Sequence[str]) -> Int64[np.ndarray, " images"]:
        """Ids of the images that fit all conditions, each ``COLUMN=VALUE``; they see the data set's
        own image_id. Raises UsageError for an unknown column and a value of another kind."""
        table, ids = self.images, numbers(self.images["image_id"])
        if self.has_named_images:
            place = table.column_names.index("image_id")
            table = table.set_column(place, "image_id", pa.array(self.labels("image_id", ids)))
        fits = np.ones(len(table), bool)
        for condition in conditions:
            fits &= _equal(table, condition)
        return ids[fits]

    def file(self, image_id: int) -> str:
        """The file name in images.parquet."""
        return self._cell("image_id", "file", image_id)

    def size(self, image_id: int) -> tuple[int, int]:
        """Width and height of the upright picture in pixels, 0 for an image that exists only as
        features."""
        return self._cell("image_id", "width", image_id), self._cell("image_id", "height", image_id)

    def first_caption(self, image_id: int) -> str:
        """The first caption of the image, empty if it has none."""
        rows = _rows(self.captions["image_id"], image_id)
        return self.captions["text"][int(rows[0])].as_py() if len(rows) else ""

    def text(self, caption_id: int) -> str:
        return self._cell("caption_id", "text", caption_id)

    def captions_of(self, image_id: int) -> list[int]:
        """The caption_ids of an image, in the order of the table."""
        return numbers(self.captions["caption_id"])[_rows(self.captions["image_id"], image_id)].tolist()

    def image_of(self, caption_id: int) -> int:
        return self._cell("caption_id", "image_id", caption_id)

    def path(self, image_id: int) -> Path | None:
        """The path of the image for ``page_bytes``: a file, or a member of a shard. None if the
        file is missing or only features exist. Raises InputError for a name outside ``root``."""
        if not self.size(image_id)[0]:
            return None
        return self._existing(self.file(image_id), f"{self.folder / images.NAME}: image_id {image_id}")

    def content(self, image_id: int, read: Callable[[Path, str], bytes | None] = page_bytes) -> bytes | None:
        """The bytes of the image by ``read``, None where ``path`` is. Raises IntegrityError where
        the file is another one than ``prepare`` read."""
        path = self.path(image_id)
        return None if path is None else read(path, self._cell("image_id", "sha256", image_id))

    def content_of(self, file: str) -> bytes | None:
        """``content`` of a name in images.parquet."""
        path = self._existing(file, str(self.folder)) if file else None
        if path is None:
            return None
        row = pc.index(self.images["file"], file).as_py()
        return page_bytes(path, self.images["sha256"][row].as_py() if row >= 0 else "")

    def _existing(self, file: str, where: str) -> Path | None:
        return self.root / file if inside(self.root, path_of(file), where).is_file() else None

    def _cell(self, key: str, column: str, number: int) -> Any:
        """A value of the image or caption with this id."""
        table, name = (self.images, images.NAME) if key == "image_id" else (self.captions, captions.NAME)
        rows = _rows(table[key], number)
        if not len(rows):
            raise InputError(f"{self.folder / name}: no {key} {number}; prepare and embed the data set again")
        return table[column][int(rows[0])].as_py()


def numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """The column as an array without a copy. ``to_numpy`` would import pandas, which takes half a
    second."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return np.from_dlpack(column)


def _rows(column: pa.ChunkedArray, number: int) -> np.ndarray:
    return np.flatnonzero(numbers(column) == number)


def _equal(table: pa.Table, condition: str) -> Bool[np.ndarray, " rows"]:
    name, sign, value = (part.strip() for part in condition.partition("="))
    if not sign or name not in table.column_names:
        columns = ", ".join(table.column_names)
        raise UsageError(f"--where {condition!r}: expected COLUMN=VALUE with a column of {columns}")
    kind = table.schema.field(name).type
    try:
        scalar = pa.scalar(value).cast(kind)
    except pa.ArrowInvalid as error:
        raise UsageError(f"--where {condition!r}: column {name} is {kind}") from error
    return np.asarray(pc.equal(table[name], scalar))
