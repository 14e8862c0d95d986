"""data/extract/<dataset>/<features>/contents.parquet: the picture behind each row of features.npy.

A later call takes these rows and computes the others. ``made`` in the footer is a digest of weights, options, code and versions.
data/embed/<run>/ has the same for the rows of images.parquet.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import _content
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core import tables

NAME = "contents.parquet"
_MADE = "made"
SCHEMA = pa.schema(
    [
        tables.field(
            "content",
            pa.string(),
            "digest of the picture, as in images.parquet, and which box of it; null: nobody knows",
            nullable=True,
        )
    ],
    metadata={"artefact": "contents", "version": "1"},
)


def of(images: pa.Table) -> pa.Array:
    """One string for each row of images.parquet, alike where the same pixels are shown; null where ``prepare`` found no file."""
    box = pc.struct_field(pc.extract_regex(images["file"], _content.BOX), "box")
    known = pc.invert(pc.is_in(images["sha256"], pa.array(["", UNREAD])))
    found = pc.binary_join_element_wise(images["sha256"], pc.fill_null(box, ""), "")
    return pc.if_else(known, found, pa.scalar(None, pa.string())).combine_chunks()


def write(folder: Path, contents: pa.Array, made: str) -> None:
    tables.write(folder / NAME, pa.table([contents], schema=SCHEMA), SCHEMA, {_MADE: made})


def read(folder: Path) -> tuple[pa.ChunkedArray, str]:
    """Contents by row, and ``made``. Raises InputError when the file is missing or unfit, IntegrityError when it is damaged."""
    table = tables.read(folder / NAME, SCHEMA, told=_MADE)
    return table["content"], tables.footer(table)[_MADE]


def places(wanted: pa.Array, known: Iterable[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """For each of ``wanted`` the first place where it is known, counted through all of ``known``; null where nowhere."""
    chunks = [chunk for one in known for chunk in (one.chunks if isinstance(one, pa.ChunkedArray) else [one])]
    return pc.index_in(wanted, pa.chunked_array(chunks, pa.string()).combine_chunks(), skip_nulls=True)
