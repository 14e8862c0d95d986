"""Which images and captions a figure belongs to, as one digest for each split."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.images import SPLITS

# 64 bits: told apart by accident, not by design, and short enough for a table.
_DIGITS = 16
_COLUMNS = (("image_id", "sha256"), ("caption_id", "image_id", "text"), ("box",))
# What of an address says which part of the picture it is (``vse_pipe.pictures.address``).
BOX = "(?P<box>#xywh=[0-9,]+)$"
# Names of columns to consecutive rows of them, again whenever it is asked.
Blocks = Callable[[list[str]], Iterator[pa.Table]]


def by_split(images: pa.Table, captions: pa.Table | Blocks) -> dict[str, str]:
    """{split: hex digest} of the splits that have images: ids and bytes of the images, which boxes in them they are where
    they are boxes, ids and texts of the captions, in their order. images, captions: as ``vse-pipe prepare`` writes them, or some of their rows."""
    digests = {split: hashlib.sha256() for split in SPLITS if pc.any(pc.equal(images["split"], split)).as_py()}
    boxes = pc.struct_field(pc.extract_regex(images["file"], BOX), "box")
    tables = (images, captions, pa.table({"split": images["split"], "box": boxes}))
    for table, names in zip(tables, _COLUMNS, strict=True):
        for name in names:
            _add(digests, table, name)
    return {split: digest.hexdigest()[:_DIGITS] for split, digest in digests.items()}


def _add(digests: dict[str, Any], table: pa.Table | Blocks, name: str) -> None:
    """The rows of a column, however they are cut into chunks: numbers, or lengths in bytes and then the bytes."""
    texts = False
    for split, part in _parts(digests, table, name):
        texts = pa.types.is_string(part.type)
        digests[split].update((pc.binary_length(part) if texts else part).to_numpy())
    for split, part in _parts(digests, table, name) if texts else ():
        for chunk in part.chunks:
            joined = pc.binary_join(pa.ListArray.from_arrays([0, len(chunk)], chunk), "")
            digests[split].update(joined[0].as_buffer())


def _parts(digests: dict[str, Any], table: pa.Table | Blocks, name: str) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """A split, and its rows, of consecutive rows after the other."""
    columns = [name, "split"]
    for block in [table.select(columns)] if isinstance(table, pa.Table) else table(columns):
        for split in digests:
            yield split, block[name].filter(pc.equal(block["split"], split)).drop_null()
