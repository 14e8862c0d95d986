"""Size, times and digest of each picture of a folder at its last reading: data/seen/<folder>/pictures.parquet.

No stage depends on it, and it may be removed.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from vse_pipe.core import tables

NAME = "pictures.parquet"
SCHEMA = pa.schema(
    [
        tables.field("file", pa.string(), "below the folder"),
        tables.field("size", pa.int64(), "bytes"),
        tables.field("changed", pa.int64(), "nanoseconds since 1970"),
        tables.field(
            "entry",
            pa.int64(),
            "nanoseconds since 1970, when the file system's entry of the file changed; no copy can set it",
        ),
        tables.field("width", pa.int32(), "pixels, upright"),
        tables.field("height", pa.int32(), "pixels, upright"),
        tables.field("orientation", pa.int32(), "of EXIF, 1 to 8"),
        tables.field("sha256", pa.string(), "of the file"),
    ],
    metadata={"artefact": "seen", "version": "2"},
)


def write(folder: Path, rows: Iterable[tuple]) -> None:
    """rows: the columns of ``SCHEMA``, a picture each."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    tables.write(folder / NAME, pa.table([list(one) for one in columns], schema=SCHEMA), SCHEMA, {})


def read(folder: Path) -> Iterator[tuple]:
    """Raises IntegrityError for a damaged file."""
    table = tables.read(folder / NAME, SCHEMA)
    return zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True)
