"""What a run's images and captions are encoded from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import model
from vse_pipe.train.data import PixelSource
from vse_pipe.train.model import DualEncoder

# Images in one pass.
BATCH = 1024


@dataclass(frozen=True)
class Sources:
    """model: on ``device``; images, captions: the data set's tables; inputs: what the image encoder reads; texts: None where there
    are no captions."""

    model: DualEncoder
    images: pa.Table
    captions: pa.Table
    features: Features
    inputs: np.ndarray | PixelSource
    texts: Texts | None
    device: torch.device

    def seen(self, image_ids: np.ndarray, shown: str = "", even: bool = False) -> Tensor:
        """(n, dim) or (n, R, dim). shown: what a progress line calls the work; none without.

        even: the last batch is filled up, since the last bits of what an image gives may follow from how many a batch holds; they
        never follow from which.
        """
        rows = self.features.rows_of(image_ids)
        size = BATCH if isinstance(self.inputs, np.ndarray) else min(BATCH, self.inputs.batch_size)
        filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % size)]) if even else rows
        return model.images(self.model, self.inputs, filled, self.device, size, shown)[: len(rows)]

    def read(self, caption_ids: np.ndarray, shown: str = "") -> Tensor | Words:
        """(n, dim), or the words of n captions. shown: as of ``seen``."""
        assert self.texts is not None
        places = self.texts.places_of(caption_ids)
        return model.captions(self.model, self.texts, places, self.device, shown=shown)


def of_splits(table: pa.Table, splits: Sequence[str] | None) -> pa.Table:
    """The rows of these splits, in the table's order; all of them for None."""
    return table if splits is None else table.filter(pc.is_in(table["split"], pa.array(splits, pa.string())))
