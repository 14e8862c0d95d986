"""Images and captions of splits of precomputed features, whatever file says the captions."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import captions, images
from vse_pipe.prepare.engine.rows import BLOCK, Rows, blocks
from vse_pipe.prepare.engine.source import Source

_TEXT = pa.schema([captions.SCHEMA.field("text")])


def texts(folder: Path, found: Iterable[str]) -> pa.Table:
    """The captions of a split, one column, on the disk."""
    rows = Rows(folder, _TEXT)
    for text in found:
        rows.add(text)
    return rows.table()


class Splits:
    """The tables of a data set, filled split by split; caption_id is a running number."""

    def __init__(self, folder: Path) -> None:
        self._images, self._captions = Rows(folder, images.SCHEMA), Rows(folder, captions.SCHEMA)
        self._broken: list[str] = []

    def add(
        self, prefix: str, split: str, ids: np.ndarray, digests: np.ndarray, texts: pa.Table, broken: Sequence[str]
    ) -> None:
        """prefix: of the files of features; ids: int64 (n,); digests: uint8 (rows, 32), as many rows for each image as for any;
        texts: as of ``texts``, as many for each image; broken: as of ``Source``."""
        repeated, each = len(digests) // len(ids), len(texts) // len(ids)
        for start in range(0, len(ids), BLOCK):
            part = ids[start : start + BLOCK]
            rows = np.arange(start, start + len(part)) * repeated
            hexes = [bytes(one).hex() for one in digests[rows]]
            files, nothing = [f"{prefix}_ims.npy#{row}" for row in rows.tolist()], np.zeros(len(part), np.int32)
            self._images.extend(part, files, pa.repeat(split, len(part)), nothing, nothing, hexes)
        before = self._captions.count
        for start, block in blocks(texts):
            places = np.arange(start, start + len(block))
            self._captions.extend(before + places, ids[places // each], block["text"], pa.repeat(split, len(block)))
        self._broken += broken

    def source(self, root: Path) -> Source:
        return Source(self._images.table(), self._captions.table(), str(root), self._broken)
