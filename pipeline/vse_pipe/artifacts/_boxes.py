"""Columns of a box in pixels, as Flickr30k Entities counts them: from 0, both corners belong to the box."""

import numpy as np
import pyarrow as pa

from vse_pipe.core import tables

COLUMNS = ("x1", "y1", "x2", "y2")
_ABOUT = ("left", "top", "right, the pixel itself included", "bottom, the pixel itself included")
FIELDS = [
    tables.field(name, pa.float64(), f"{about}; pixels from 0") for name, about in zip(COLUMNS, _ABOUT, strict=True)
]
_SHOWN = 3


def of(table: pa.Table) -> np.ndarray:
    """(rows, 4) float64: x1, y1, x2, y2."""
    return np.stack([table[name].to_numpy() for name in COLUMNS], axis=1)


def problems(table: pa.Table, key: str) -> list[str]:
    """What is no box, by the column ``key`` of its row."""
    found = of(table)
    fine = np.isfinite(found).all(1) & (found[:, :2] >= 0).all(1) & (found[:, 2:] >= found[:, :2]).all(1)
    wrong = table.filter(pa.array(~fine)).slice(0, _SHOWN).select([key, *COLUMNS]).to_pylist()
    return [f"{key} {row[key]}: no box: {', '.join(str(row[name]) for name in COLUMNS)}" for row in wrong]
