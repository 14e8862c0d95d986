"""data/prepare/<dataset>/names.parquet: text ids of the data set; data/embed/<run>/ has a copy.

All other files have numbers; users and other programs see the text. A data set with numbers has no
such file. images.parquet has its digest.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.tables import field

NAME = "names.parquet"
KEYS = ("image_id", "caption_id")
SCHEMA = tables.schema(
    "names 1",
    field("key", pa.string(), "image_id or caption_id: which ids these are; one of them may have numbers only"),
    field("id", pa.int64(), "the number, as in all other files"),
    field("name", pa.string(), "the text; unique among the names of its key, whatever the capitals"),
)


@dataclass(frozen=True)
class TextIds:
    """table: a valid table of ``SCHEMA``."""

    table: pa.Table

    @classmethod
    def from_columns(cls, **columns: tuple[np.ndarray, pa.Array]) -> "TextIds":
        """columns: (numbers, texts) by key."""
        parts = [
            pa.table({"key": pa.repeat(key, len(ids)), "id": pa.array(ids, pa.int64()), "name": texts}, schema=SCHEMA)
            for key, (ids, texts) in columns.items()
        ]
        return cls(pa.concat_tables(parts))

    def texts(self, key: str, ids: np.ndarray) -> pa.Array | None:
        """The names of the ids; None for numbers. Raises InputError without a name."""
        numbers, names = self._sides[key]
        if not len(numbers):
            return None
        places = np.searchsorted(numbers, ids).clip(max=len(numbers) - 1)
        if (numbers[places] != ids).any():
            absent = np.asarray(ids)[numbers[places] != ids][0]
            raise InputError(f"{NAME}: no name for {key} {absent}; prepare and embed the data set again")
        return names.take(pa.array(places))

    def label(self, key: str, number: int) -> int | str:
        """The text for users: the name of a number, or the number."""
        texts = self.texts(key, np.array([number]))
        return number if texts is None else texts[0].as_py()

    def number(self, key: str, text: str) -> int | None:
        """The number of a name; None for an unknown name."""
        numbers, names = self._sides[key]
        place = pc.index(names, text).as_py()
        return None if place < 0 else int(numbers[place])

    def has(self, key: str) -> bool:
        """Whether the ids of this key are text."""
        return bool(len(self._sides[key][0]))

    @cached_property
    def _sides(self) -> dict[str, tuple[np.ndarray, pa.Array]]:
        """Numbers in ascending order, and the names beside them."""
        sides = {}
        for key in KEYS:
            part = self.table.filter(pc.equal(self.table["key"], key)).sort_by("id")
            sides[key] = part["id"].to_numpy(), part["name"].combine_chunks()
        return sides


def write(folder: Path, names: TextIds) -> None:
    tables.write(folder / NAME, names.table, SCHEMA, {})


def read(folder: Path) -> TextIds | None:
    """The names; None where ids are numbers."""
    path = folder / NAME
    return TextIds(tables.read(path, SCHEMA)) if path.is_file() else None
