"""Small tables in CSV files, read back."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vse_pipe.core.errors import InputError
from vse_pipe.core.files import require

_MOST = 100

if TYPE_CHECKING:
    from pandas import DataFrame


def read_csv(path: Path, columns: Sequence[str], made_by: str) -> "DataFrame":
    """What ``write_csv`` wrote. Raises InputError when the file is missing, is none or lacks one of ``columns``."""
    import pandas as pd

    again = f"run `{made_by}` again"
    try:
        with require(path, made_by).open(encoding="utf-8") as file:
            names = file.readline().rstrip("\n").split(",")
        # Before pandas, which needs seconds for ten thousand columns of a damaged file.
        for name in columns:
            if name not in names:
                raise InputError(f"{path}: column '{name}' is missing; {again}")
        if len(names) > _MOST:
            raise InputError(f"{path}: has {len(names)} columns; {again}")
        with warnings.catch_warnings():
            # Of lines longer than the header, whose first cells pandas would else take for an index.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(path, index_col=False)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise InputError(f"{path}: not a CSV file ({' '.join(str(error).split())}); {again}") from error
