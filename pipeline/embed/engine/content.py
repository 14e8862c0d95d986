"""Which data a figure belongs to."""

import hashlib
import json

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.artifacts.images import SPLITS

# 64 bits: told apart by accident, not by design, and short enough for a table.
_DIGITS = 16
_COLUMNS = (("image_id", "sha256"), ("caption_id", "image_id", "text"))


def by_split(images: pa.Table, captions: pa.Table) -> dict[str, str]:
    """{split: hex digest} of the splits that have images: ids and bytes of the images, ids and texts of the captions, in
    their order. images, captions: as ``vse-pipe prepare`` writes them, or some of their rows."""
    found = {}
    for split in SPLITS:
        parts = [table.filter(pc.equal(table["split"], split)) for table in (images, captions)]
        if parts[0].num_rows:
            rows = [[part[name].to_pylist() for name in names] for part, names in zip(parts, _COLUMNS, strict=True)]
            found[split] = hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:_DIGITS]
    return found
