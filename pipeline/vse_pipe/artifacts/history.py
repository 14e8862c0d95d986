"""data/train/<run>/history.csv: a row an epoch, for learning curves.

Columns ``epoch``, ``lr``, ``loss``, ``val_rsum`` and its recalls. If a run averages its weights, these belong to the average, and
``own_rsum`` to the weights as they are."""

from pathlib import Path
from typing import TYPE_CHECKING

from vse_pipe.artifacts._run import of_folder
from vse_pipe.core.files import write_csv

if TYPE_CHECKING:
    import pandas as pd  # half a second that those do without who ask for the name alone

NAME = "history.csv"
# rsum of the weights as they are, of runs that average them; ``val_rsum`` and the recalls are then the average's.
OWN = "own_rsum"
COLUMNS = ["epoch", "lr", "loss", "val_rsum", *[f"val_{d}_r{k}" for d in ("i2t", "t2i") for k in (1, 5, 10)]]


def write(folder: Path, rows: list[dict]) -> None:
    import pandas as pd

    columns = [*COLUMNS, OWN] if rows and OWN in rows[0] else COLUMNS
    write_csv(folder / NAME, pd.DataFrame(rows, columns=columns))


def read(folder: Path) -> "pd.DataFrame":
    """Raises InputError when it is missing or unfit."""
    from vse_pipe.core.tables import read_csv

    return read_csv(folder / NAME, COLUMNS, f"vse-pipe train --run {of_folder(folder)}")
