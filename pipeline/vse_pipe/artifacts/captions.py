"""data/prepare/<dataset>/captions.parquet: a row per caption; there may be none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.tables import field

NAME = "captions.parquet"
_ROWS = 2**15
SCHEMA = tables.schema(
    "captions 1",
    field("caption_id", pa.int64(), "unique"),
    field("image_id", pa.int64(), "the image it describes; a row of images.parquet"),
    field("text", pa.string(), "as in the source, never empty"),
    field("split", pa.string(), "the split of its image"),
)


def read(folder: Path, needed_by: str = "", columns: Sequence[str] = tuple(SCHEMA.names)) -> pa.Table:
    """The captions. columns: the only ones to read; without the text a caption takes 30 bytes.
    needed_by: a command that needs captions; InputError is raised where there are none."""
    table = tables.read(folder / NAME, _schema(columns), list(columns), problems)
    if needed_by and not table.num_rows:
        raise InputError(
            f"{needed_by}: data set '{folder.name}' has no captions; its pictures can be embedded by a run that was trained on other data, and searched"
        )
    return table


@dataclass(frozen=True)
class CaptionColumn:
    """A column of the captions in ``folder``, read by row groups in every iteration."""

    folder: Path
    name: str

    def __iter__(self) -> Iterator[str]:
        for block in blocks(self.folder, [self.name]):
            yield from block[self.name].to_pylist()


def blocks(folder: Path, columns: Sequence[str], mask: np.ndarray | None = None) -> Iterator[pa.Table]:
    """Consecutive rows, with a row group in memory. mask: bool, the captions to give; None for all.
    Raises as ``read``, where ids are repeated within a block."""
    first = 0
    for table in tables.scan(folder / NAME, _schema(columns), list(columns)):
        for start in range(0, table.num_rows, _ROWS):
            block = table.slice(start, _ROWS)
            tables.problems_or_pass(folder / NAME, problems(block))
            yield block if mask is None else block.filter(pa.array(mask[first : first + len(block)]))
            first += len(block)


def _schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([SCHEMA.field(name) for name in columns])


def absent(folder: Path) -> bool:
    """Whether the data set is prepared and has no captions, by the footer."""
    return (folder / NAME).is_file() and tables.row_count(folder / NAME) == 0


def problems(table: pa.Table) -> list[str]:
    """Repeated ids and empty texts, as far as the columns are there."""
    messages = tables.repeated(table, "caption_id") if "caption_id" in table.schema.names else []
    if "text" in table.schema.names:
        empty = table.filter(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(table["text"])), 0))
        key = "caption_id" if "caption_id" in table.schema.names else "text"
        messages += [f"caption_id {value}: the caption is empty" for value in empty[key][:3].to_pylist()]
    return messages


write = tables.Artefact(NAME, SCHEMA, further=problems).write
