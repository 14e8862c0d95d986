"""data/extract/<dataset>/<features>/errors.parquet: images without features, and why; it may be empty."""

from pathlib import Path

import pyarrow as pa

from vse_pipe.core import tables

NAME = "errors.parquet"
SCHEMA = pa.schema(
    [
        tables.field("image_id", pa.int64(), "unique; the image's in images.parquet"),
        tables.field("file", pa.string(), "as images.parquet names it"),
        tables.field("reason", pa.string(), "why it cannot be read, in words that follow its name"),
    ],
    metadata={"artefact": "errors", "version": "1"},
)


def write(folder: Path, table: pa.Table) -> None:
    """Raises InputError when an image is named twice or without a reason."""
    tables.write(folder / NAME, table, SCHEMA, {}, problems)


def read(folder: Path) -> pa.Table:
    """Raises InputError when the file is missing or unfit, IntegrityError when it is damaged."""
    return tables.read(folder / NAME, SCHEMA, "vse-pipe extract", problems=problems)


def problems(table: pa.Table) -> list[str]:
    found = tables.repeated(table, "image_id")
    silent = sum(not reason for reason in table["reason"].to_pylist())
    return found + ([f"{silent} images have no reason"] if silent else [])
