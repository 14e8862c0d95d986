"""data/prepare/<dataset>/captions.parquet: a row per caption; there may be none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

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
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    table = tables.read(folder / NAME, schema, list(columns))
    if needed_by and not table.num_rows:
        raise InputError(
            f"{needed_by}: data set '{folder.name}' has no captions; its pictures can be embedded by a run that was trained on other data, and searched"
        )
    return table


@dataclass(frozen=True)
class CaptionColumn:
    """A column of the captions in ``folder``, read in every iteration."""

    folder: Path
    name: str

    def __iter__(self) -> Iterator[str]:
        for chunk in read(self.folder, columns=[self.name])[self.name].chunks:
            for start in range(0, len(chunk), _ROWS):
                yield from chunk.slice(start, _ROWS).to_pylist()


def absent(folder: Path) -> bool:
    """Whether the data set is prepared and has no captions, by the footer."""
    if not (folder / NAME).is_file():
        return False
    with tables.open_parquet(folder / NAME) as file:
        return file.metadata.num_rows == 0


write = tables.Artefact(NAME, SCHEMA, "caption_id").write
