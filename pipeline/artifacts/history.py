"""data/train/<run>/history.csv: one row per epoch, the learning curve that DVC plots and the report draw."""

from pathlib import Path

import pandas as pd

from pipeline.core.files import write_csv
from pipeline.core.frames import read_csv
from pipeline.project.repetitions import of_folder

NAME = "history.csv"
COLUMNS = ["epoch", "lr", "loss", "val_rsum", *[f"val_{d}_r{k}" for d in ("i2t", "t2i") for k in (1, 5, 10)]]


def write(folder: Path, rows: list[dict]) -> None:
    write_csv(folder / NAME, pd.DataFrame(rows, columns=COLUMNS))


def read(folder: Path) -> pd.DataFrame:
    """Raises InputError when it is missing or unfit."""
    return read_csv(folder / NAME, COLUMNS, f"vse-pipe train --run {of_folder(folder)}")
