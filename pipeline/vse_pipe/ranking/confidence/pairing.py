"""Only evaluations of the same queries, among the same items and under the same protocol can be paired."""

import pandas as pd
import pyarrow as pa

from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.confidence.compared import Compared

_PROTOCOL = ("split", "protocol", "ties")


def check(a: Compared, b: Compared) -> None:
    """Raises InputError with what differs: the protocol, the data, the queries, their images or the items."""
    names = f"{a.name} and {b.name} cannot be compared"
    for key in _PROTOCOL:
        if a.metrics.get(key) != b.metrics.get(key):
            raise InputError(
                f"{names}: {key} is {a.metrics.get(key)!r} in the first, {b.metrics.get(key)!r} in the second"
            )
    data = [one.metrics.get("data") for one in (a, b)]
    if None not in data and data[0] != data[1]:
        raise InputError(
            f"{names}: measured on other data ({data[0]} in the first, {data[1]} in the second); the same pictures and captions "
            "under other ids are paired where both are named as runs of a project"
        )
    if data.count(None) == 1:
        warn(f"{(a, b)[data.index(None)].name} does not say which data it was measured on; evaluate again to be sure")
    queries = _index(a, a.ranks, "query_id"), _index(b, b.ranks, "query_id")
    _same(names, *queries, "queries")
    images = [
        pd.Series(one.ranks["image_id"].to_numpy(), index=index).sort_index()
        for one, index in zip((a, b), queries, strict=True)
    ]
    moved = images[0].index[images[0].to_numpy() != images[1].to_numpy()]
    if len(moved):
        ids = ", ".join(str(one[moved[0]]) for one in images)
        raise InputError(
            f"{names}: {len(moved)} queries belong to other images, the first is "
            f"{_text(moved[0], 'query_id')} of images {ids}"
        )
    items = _index(a, a.occurrence, "item_id"), _index(b, b.occurrence, "item_id")
    _same(names, *items, "items")
    _alike(names, *map(_texts, (a.ranks, b.ranks), queries, ("query_name",) * 2))
    _alike(names, *map(_texts, (a.occurrence, b.occurrence), items, ("item_name",) * 2))


def _texts(table: pa.Table, index: pd.MultiIndex, column: str) -> pd.Series:
    """Of ids that are text, whose numbers mean nothing by themselves; empty for the others."""
    found = (
        table[column].to_pandas() if column in table.column_names else pd.Series(None, range(len(table)), dtype=object)
    )
    return pd.Series(found.fillna("").to_numpy(), index=index).sort_index()


def _alike(names: str, a: pd.Series, b: pd.Series) -> None:
    """Raises InputError where one number stands for two texts."""
    other = a.index[a.to_numpy() != b.to_numpy()]
    if len(other):
        raise InputError(
            f"{names}: {_text(other[0], a.index.names[2])} is {a[other[0]] or 'a number'!r} in the first and "
            f"{b[other[0]] or 'a number'!r} in the second; evaluate files whose rows come in the same order"
        )


def _index(one: Compared, table: pa.Table, column: str) -> pd.MultiIndex:
    index = pd.MultiIndex.from_arrays(
        [table["direction"].to_numpy(), table["fold"].to_numpy(), table[column].to_numpy()],
        names=["direction", "fold", column],
    )
    if index.has_duplicates:
        twice = index[index.duplicated()][0]
        raise InputError(f"{one.name}: {_text(twice, column)} is there more than once; evaluate again")
    return index


def _same(names: str, a: pd.MultiIndex, b: pd.MultiIndex, what: str) -> None:
    differing = a.symmetric_difference(b)
    if len(differing):
        first = differing[0]
        side = "first" if first in a else "second"
        raise InputError(
            f"{names}: {len(a)} and {len(b)} {what}, of which {len(differing)} are on one side only; "
            f"{_text(first, a.names[2])} is only in the {side}"
        )


def _text(key: tuple, column: str) -> str:
    return f"{key[0]} fold {key[1]} {column} {key[2]}"
