"""The boxes of a data set of regions, as training needs them: those that phrases are shown with, and the proposals beside."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from pipeline.artifacts._boxes import of as boxes_of
from pipeline.artifacts.features import Features
from pipeline.core.errors import InputError


@dataclass(frozen=True)
class TrainRegions:
    """boxes, pictures: of the region that each training pair shows; rows, proposals, proposed_in: feature row, box and picture
    of the proposals of these pictures, in the order of pictures. Boxes are x1, y1, x2, y2, both corners inside."""

    boxes: Float[np.ndarray, "pairs 4"]
    pictures: Int[np.ndarray, " pairs"]
    rows: Int[np.ndarray, " proposals"]
    proposals: Float[np.ndarray, "proposals 4"]
    proposed_in: Int[np.ndarray, " proposals"]

    @classmethod
    def of(cls, table: pa.Table, features: Features, owners: np.ndarray, told: str) -> "TrainRegions":
        """table: regions.parquet; owners: the image of each pair; told: the run, for messages. Proposals whose features could
        not be computed are left out. Raises InputError where no picture of a pair has a proposal."""
        ids, pictures = (table[name].to_numpy() for name in ("image_id", "source_id"))
        order = np.argsort(ids)
        shown = order[np.searchsorted(ids, owners, sorter=order)]
        kept = pc.fill_null(table["proposed"], False).to_numpy(zero_copy_only=False) & features.readable(ids)
        proposed = np.flatnonzero(kept & np.isin(pictures, pictures[shown]))
        if not len(proposed):
            raise InputError(
                f"train {told}: no picture of its training pairs has a proposal; add train to the splits that the data set proposes boxes for"
            )
        proposed = proposed[np.argsort(pictures[proposed], kind="stable")]
        boxes = boxes_of(table)
        rows = features.rows_of(ids[proposed])
        return cls(boxes[shown], pictures[shown], rows, boxes[proposed], pictures[proposed])
