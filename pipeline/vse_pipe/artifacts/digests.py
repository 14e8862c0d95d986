"""Digests of the content of prepared images and captions."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions, images
from vse_pipe.artifacts.images import SPLITS, UNREAD
from vse_pipe.core.files import sha256

_DIGITS = 16  # of a digest: 64 bits are enough against accidents, and short enough for a table
_COLUMNS = (("image_id", "sha256"), ("caption_id", "image_id", "text"), ("box",))
# The part of an address that names a box (``vse_pipe.pictures.address``).
BOX = "(?P<box>#xywh=[0-9,]+)$"

# Files of data/prepare/<dataset>/; only some data sets have the last three.
PREPARED = (images.NAME, captions.NAME, "names.parquet", "phrases.parquet", "regions.parquet")


def of_values(values: object) -> str:
    """A digest of values that JSON can hold."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def prepared_parts(folder: Path, image_rows: pa.Table, caption_rows: pa.Table) -> dict[str, str]:
    """The parts of a prepared data set for ``identity.write``: its files, empty for one that is not
    there, and its splits. image_rows, caption_rows: the tables in ``folder``."""
    files = {Path(name).stem: folder / name for name in PREPARED}
    of_files = {part: sha256(path) if path.is_file() else "" for part, path in files.items()}
    return of_files | by_split(image_rows, caption_rows)


def by_split(images: pa.Table, captions: pa.Table) -> dict[str, str]:
    """{split: hex digest} of the splits with images: ids, bytes and boxes of the images, ids and
    texts of the captions, in their order. images, captions: the tables of ``vse-pipe prepare``, or
    some of their rows."""
    digests = {split: hashlib.sha256() for split in SPLITS if pc.any(pc.equal(images["split"], split)).as_py()}
    tables = (images, captions, pa.table({"split": images["split"], "box": _boxes(images)}))
    for table, names in zip(tables, _COLUMNS, strict=True):
        for split, digest in digests.items():
            rows = table.filter(pc.equal(table["split"], split))
            for name in names:
                _add(digest, rows[name].drop_null())
    return {split: digest.hexdigest()[:_DIGITS] for split, digest in digests.items()}


def _boxes(images: pa.Table) -> pa.ChunkedArray:
    """The box in each address of a picture, null for a whole one."""
    return pc.struct_field(pc.extract_regex(images["file"], BOX), "box")


def _add(digest: Any, column: pa.ChunkedArray) -> None:
    """Adds numbers, or lengths in bytes and then the bytes."""
    is_text = pa.types.is_string(column.type)
    digest.update((pc.binary_length(column) if is_text else column).to_numpy())
    for chunk in column.chunks if is_text else ():
        digest.update(pc.binary_join(pa.ListArray.from_arrays([0, len(chunk)], chunk), "")[0].as_buffer())


def picture_contents(images: pa.Table) -> pa.Array:
    """A string for each row of images.parquet, equal for equal pixels, or null."""
    has_digest = pc.invert(pc.is_in(images["sha256"], pa.array(["", UNREAD])))
    contents = pc.binary_join_element_wise(images["sha256"], pc.fill_null(_boxes(images), ""), "")
    return pc.if_else(has_digest, contents, pa.scalar(None, pa.string())).combine_chunks()
