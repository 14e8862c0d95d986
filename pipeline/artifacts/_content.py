"""Which images and captions a figure belongs to, as one digest for each split."""

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.artifacts.images import SPLITS

# 64 bits: told apart by accident, not by design, and short enough for a table.
_DIGITS = 16
_COLUMNS = (("image_id", "sha256"), ("caption_id", "image_id", "text"))
# What of an address says which part of the picture it is (``pipeline.pictures.address``).
BOX = "(?P<box>#xywh=[0-9,]+)$"


def by_split(images: pa.Table, captions: pa.Table) -> dict[str, str]:
    """{split: hex digest} of the splits that have images: ids and bytes of the images, which boxes in them they are where
    they are boxes, ids and texts of the captions, in their order. images, captions: as ``vse-pipe prepare`` writes them, or some of their rows."""
    found = {}
    for split in SPLITS:
        parts = [table.filter(pc.equal(table["split"], split)) for table in (images, captions)]
        if parts[0].num_rows:
            digest = hashlib.sha256()
            for part, names in zip(parts, _COLUMNS, strict=True):
                for name in names:
                    _add(digest, part[name])
            _add(digest, pc.struct_field(pc.extract_regex(parts[0]["file"], BOX), "box").drop_null())
            found[split] = digest.hexdigest()[:_DIGITS]
    return found


def _add(digest, column: pa.ChunkedArray) -> None:
    """The rows of a column, however they are cut into chunks: numbers, or lengths in bytes and then the bytes."""
    if not pa.types.is_string(column.type):
        digest.update(column.to_numpy())
        return
    digest.update(pc.binary_length(column).to_numpy())
    for chunk in column.chunks:
        digest.update(pc.binary_join(pa.ListArray.from_arrays([0, len(chunk)], chunk), "")[0].as_buffer())
