"""items.npy and queries.npy (rows, D + 1) float32, items_ids.npy and queries_ids.npy int64."""

from pathlib import Path

import numpy as np

from pipeline.tools.export.fold import Folded


def write(folder: Path, folded: Folded) -> None:
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        np.save(folder / f"{name}.npy", side.vectors)
        np.save(folder / f"{name}_ids.npy", side.ids)
