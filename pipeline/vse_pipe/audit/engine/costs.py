"""Transport costs over the epochs, from what a scheme that transports has recorded."""

import pandas as pd

from vse_pipe.artifacts.audit import COSTS_COLUMNS


def table(records: list[dict]) -> pd.DataFrame:
    """A row per epoch and bin: pairs whose own cost lay in [low, high), matched and mismatched ``by`` the truth or the
    scheme's split. records: those of ``artifacts.rematching``."""
    rows = [
        (record["epoch"], record["by"], low, high, matched, mismatched)
        for record in records
        for low, high, matched, mismatched in zip(
            record["cost"]["edges"][:-1],
            record["cost"]["edges"][1:],
            record["cost"]["matched"],
            record["cost"]["mismatched"],
            strict=True,
        )
    ]
    return pd.DataFrame(rows, columns=COSTS_COLUMNS)
