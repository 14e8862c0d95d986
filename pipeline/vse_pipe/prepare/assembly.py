"""The tables of a data set with pictures: rows are added first, and then all pictures are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions, images
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import files, text
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.scan import locate, readings
from vse_pipe.prepare.source import Source, caption_table

# Rows that are Python objects at a time; Arrow takes a fifth of their memory.
BLOCK = 2**14
_PLACE = [pa.field("where", pa.string()), pa.field("id", pa.string())]
_IMAGES = pa.schema([pa.field("file", pa.string()), pa.field("split", pa.string()), *_PLACE])
_CAPTIONS = pa.schema([captions.SCHEMA.field("image_id"), captions.SCHEMA.field("text"), *_PLACE])


class Assembly:
    """root: of the pictures; in_shards: files may be addresses of ``vse_pipe.pictures.address``.
    left_out: a line for what is no image of the data set.

    Raises MissingResource without the root."""

    def __init__(self, root: Path, in_shards: bool = False) -> None:
        if not in_shards and not root.is_dir():
            raise MissingResource(f"image folder {root} does not exist; set `images` to the folder of the images")
        self.root, self._in_shards = root, in_shards
        self._images, self._captions = Rows(_IMAGES), Rows(_CAPTIONS)
        self.left_out: list[str] = []

    @property
    def count(self) -> int:
        return self._images.count

    def image(self, file: str, split: str, where: str, image_id: int | str | None = None) -> int:
        """Add an image and return its number. file: its address, or name below the root; where: its
        place, for messages; image_id: for all images or for none. Raises InputError for a name that
        is not below the root."""
        locate(self.root, file, where, self._in_shards)
        self._images.add(file, split, where, _id(image_id))
        return self.count - 1

    def caption(self, image: int, text: str, where: str = "", caption_id: int | str | None = None) -> None:
        """Add a caption of that image. caption_id: for all captions or none; where: its place."""
        self._captions.add(image, text, where or None, _id(caption_id))

    def source(self) -> Source:
        """The data set. Images and captions have the ids that were given, or running numbers; a
        caption is in the split of its image. Raises InputError without images."""
        if not self.count:
            raise InputError(next(iter(self.left_out), f"no images below {files.url(self.root)} are named or found"))
        pictures, sentences = self._images.table(), self._captions.table()
        ids, names = numbered(pictures, "image_id")
        caption_ids, caption_names = numbered(sentences, "caption_id")
        table, broken = self._scanned(pictures, ids)
        owners = sentences["image_id"].combine_chunks()
        splits = pictures["split"].take(owners)
        described = caption_table(caption_ids, ids[owners.to_numpy()], sentences["text"], splits)
        texts = names | caption_names
        text_ids = TextIds.from_columns(**texts) if texts else None
        return Source(table, described, files.url(self.root), broken, names=text_ids, left_out=self.left_out)

    def _scanned(self, pictures: pa.Table, ids: np.ndarray) -> tuple[pa.Table, list[str]]:
        """images.parquet and the lines of broken images. pictures: columns of ``_IMAGES``."""
        read, broken = Rows(images.SCHEMA), []
        results = readings(self.root, ((file, where) for file, _, where, _ in _rows(pictures)), len(pictures))
        for key, (file, split, where, _), reading in zip(ids, _rows(pictures), results, strict=True):
            size, digest, reason = reading
            read.add(key, file, split, *size, digest)
            if reason is not None:
                broken.append(f"{where}: {file} {reason}")
        return read.table(), broken


def _id(value: int | str | None) -> str | None:
    return None if value is None else str(value)


def numbered(table: pa.Table, key: str) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, pa.Array]]]:
    """The numbers of the column ``id``, and the arguments of ``TextIds.from_columns``.

    Ids that are all numbers, also as text, keep their numbers and need no names. Other ids, and
    rows without ids, get running numbers. Raises InputError with the column ``where`` for an id
    that only some rows have, for repeated ids and for texts that cannot be ids."""
    ids, running = table["id"].combine_chunks(), np.arange(len(table))
    if ids.null_count == len(ids):
        return running, {}
    if ids.null_count:
        row = pc.index(ids.is_null(), True).as_py()
        raise InputError(f"{table['where'][row]}: has no {key}, which others have; give one to all or to none")
    are_numbers = text.are_numbers(ids)
    numbers = pc.cast(ids, pa.int64()).to_numpy() if are_numbers else running
    is_doubtful = not are_numbers or len(np.unique(numbers)) < len(numbers)
    if is_doubtful and (wrong := text.objection(ids)):
        raise InputError(f"{table['where'][wrong[0]]}: {key} {wrong[1]}")
    return numbers, {} if are_numbers else {key: (running, ids)}


class Rows:
    """The rows of a table."""

    def __init__(self, schema: pa.Schema) -> None:
        self.count, self._schema = 0, schema
        self._waiting: list[tuple[Any, ...]] = []
        self._blocks: list[pa.Table] = []

    def add(self, *row: Any) -> None:
        """Add a row, its values in the order of the schema."""
        self._waiting.append(row)
        self.count += 1
        if len(self._waiting) >= BLOCK:
            self._flush()

    def table(self) -> pa.Table:
        """All rows."""
        self._flush()
        return pa.concat_tables([self._schema.empty_table(), *self._blocks])

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._blocks.append(pa.table(list(zip(*waiting, strict=True)), schema=self._schema))


def _rows(table: pa.Table) -> Iterator[tuple]:
    for batch in table.to_batches(max_chunksize=BLOCK):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
