"""The boxes of a data set of regions, as training needs them: those that belong to phrases, and the proposals beside."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.regions import boxes as boxes_of
from vse_pipe.core.errors import InputError
from vse_pipe.train.engine.incidence import Incidence


@dataclass(frozen=True)
class TrainRegions:
    """boxes, pictures: of every region that belongs to a phrase, by its number in ``Incidence``; rows, proposals, proposed_in:
    feature row, box and picture of the proposals of the pairs' pictures, in the order of pictures. Boxes are x1, y1, x2, y2, both
    corners inside."""

    boxes: Float[np.ndarray, "regions 4"]
    pictures: Int[np.ndarray, " regions"]
    rows: Int[np.ndarray, " proposals"]
    proposals: Float[np.ndarray, "proposals 4"]
    proposed_in: Int[np.ndarray, " proposals"]

    @classmethod
    def of(cls, table: pa.Table, mentions: pa.Table, features: Features, known: Incidence, told: str) -> "TrainRegions":
        """table: regions.parquet; mentions: phrases.parquet beside it; known: of the training pairs; told: the run, for messages.
        Proposals whose features could not be computed are left out. Raises InputError where no picture of a pair has a
        proposal."""
        ids, pictures = (table[name].to_numpy() for name in ("image_id", "source_id"))
        # Of a region that no pair was drawn for the boxes of its mentions alone are there.
        numbers, place = np.unique(np.concatenate([ids, mentions["region_id"].to_numpy()]), return_index=True)
        place = place[np.searchsorted(numbers, known.ids)]
        boxes = np.concatenate([boxes_of(table), boxes_of(mentions)])[place]
        where = np.concatenate([pictures, mentions["image_id"].to_numpy()])[place]
        kept = pc.fill_null(table["proposed"], False).to_numpy(zero_copy_only=False) & features.readable(ids)
        proposed = np.flatnonzero(kept & np.isin(pictures, where[known.images]))
        if not len(proposed):
            raise InputError(
                f"train {told}: no picture of its training pairs has a proposal; add train to the splits that the data set proposes boxes for"
            )
        proposed = proposed[np.argsort(pictures[proposed], kind="stable")]
        rows = features.rows_of(ids[proposed])
        return cls(boxes, where, rows, boxes_of(table)[proposed], pictures[proposed])
