"""items.npy and queries.npy (rows, D + 1) float32, items_ids.npy and queries_ids.npy int64, or Unicode of ids that are text."""

from pathlib import Path

from vse_pipe.core.files import write_array
from vse_pipe.tools.export.fold import Folded


def write(folder: Path, folded: Folded) -> None:
    for name, side in [("items", folded.items), ("queries", folded.queries)]:
        write_array(folder / f"{name}.npy", side.vectors)
        write_array(folder / f"{name}_ids.npy", side.array)
