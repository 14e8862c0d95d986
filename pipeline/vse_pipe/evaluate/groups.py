"""Recall with its interval by group of queries, the worst group first."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions
from vse_pipe.artifacts.evaluation import DIRECTIONS, rounded
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.evaluate import judgements, text_tables
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import intervals

LENGTH = "length"
MOST = 50
# Numbers with more different values are cut at their quartiles.
_FEW_NUMBERS = 8


@dataclass(frozen=True)
class QueryGroups:
    """The name of the group of each caption and of each image, by id. images: None where an image
    has captions of several groups."""

    column: str
    captions: pd.Series
    images: pd.Series | None

    def rows(self, name: str, ranks: pa.Table) -> pa.Table:
        """The rows of one group, without ranks: hubness is of all queries together."""
        chosen = np.zeros(len(ranks), bool)
        for direction, names in zip(DIRECTIONS, (self.images, self.captions), strict=True):
            if names is not None:
                ids = names.index[names == name].to_numpy()
                queries = np.isin(ranks["query_id"].to_numpy(), ids)
                chosen |= queries & pc.equal(ranks["direction"], direction).to_numpy()
        column = ranks.schema.get_field_index("rank")
        return ranks.set_column(column, "rank", pa.nulls(len(ranks), ranks["rank"].type)).filter(pa.array(chosen))


def read_groups(
    params: EvaluateParams,
    ranked: tuple[np.ndarray, np.ndarray],
    names: pd.Series,
    dataset: Path | None,
) -> QueryGroups | None:
    """The groups of ``params.by``, from the file ``params.groups`` or from
    data/prepare/<dataset>/captions.parquet, where ``length`` counts words. ranked: ids of the
    ranked captions and of their images; names: of captions in the file; dataset: its folder.

    Raises UsageError for an unknown column and more than 50 groups, InputError for captions without
    a value, and as ``text_tables.read``."""
    column = params.by
    if column is None or (params.groups is None and dataset is None):
        if column is None and params.groups is None:
            return None
        raise UsageError("--by COLUMN and --groups FILE go together: a table with caption_id and that column")
    if params.groups is not None:
        path = judgements.pinned(params, params.groups)
        assert path is not None
        table = text_tables.read(path, ["caption_id", column])
        values = pd.Series(table[column].to_numpy(), judgements.find(names, table["caption_id"]))
        values = values.drop(judgements.NOWHERE, errors="ignore")
    else:
        assert dataset is not None
        path = dataset / captions.NAME
        if column not in (*captions.SCHEMA.names, LENGTH):
            message = unknown("column", column, [*captions.SCHEMA.names, LENGTH])
            raise UsageError(f"--by: {message}; --groups names a file with further ones")
        stored = captions.read(dataset).to_pandas().set_index("caption_id", drop=False)
        values = (stored["text"].str.split().str.len() if column == LENGTH else stored[column]).astype(str)
    if values.index.has_duplicates:
        raise InputError(f"{path}: caption_id {values.index[values.index.duplicated()][0]} occurs more than once")
    values = values.reindex(ranked[0])
    if (lacking := values.isna()).any():
        first = values.index[lacking][0]
        raise InputError(f"{path}: {lacking.sum()} ranked captions have no {column}, the first is caption_id {first}")
    values = _named(values, column)
    by_image = values.groupby(ranked[1])
    return QueryGroups(column, values, by_image.first() if by_image.nunique().max() == 1 else None)


def _named(values: pd.Series, column: str) -> pd.Series:
    """The groups' names: values, or of many numbers the range of each quarter."""
    numbers, count = pd.to_numeric(values, errors="coerce"), values.nunique()
    if numbers.notna().all() and count > _FEW_NUMBERS:
        edges = np.quantile(numbers, (0.25, 0.5, 0.75), method="inverted_cdf")
        quarters = numbers.groupby(np.searchsorted(edges, numbers))
        low, high = (quarters.transform(end).map("{:.12g}".format) for end in ("min", "max"))
        return low + " to " + high
    if count > MOST:
        raise UsageError(f"--by {column}: {count:,} different values; a table has at most {MOST} groups")
    return values


def measured(groups: QueryGroups, ranks: pa.Table, occurrence: pa.Table, resamples: int, seed: int) -> dict:
    """``{"column", direction: [{"group", "queries", "images", "r@1", ..., "intervals": {"r@1":
    [low, high]}}]}``, the group with the least sum of R@K first. Without ``QueryGroups.images``
    there is no direction image_to_text. Intervals are those of ``ranking.intervals`` over the
    images of the group."""
    figures: dict = {"column": groups.column}
    for direction, names in zip(DIRECTIONS, (groups.images, groups.captions), strict=True):
        if names is None:
            continue
        rows, items = (table.filter(pc.equal(table["direction"], direction)) for table in (ranks, occurrence))
        parts = ((name, groups.rows(name, rows)) for name in names.unique())
        lines = [_row(name, part, items, resamples, seed) for name, part in parts if len(part)]
        figures[direction] = sorted(lines, key=lambda row: sum(row[name] for name in _recalls(row)))
    return figures


def _recalls(row: dict) -> list[str]:
    return [name for name in row if name.startswith("r@")]


def _row(name: str, ranks: pa.Table, occurrence: pa.Table, resamples: int, seed: int) -> dict:
    figures = intervals.Figures.from_tables(ranks, occurrence)
    row = {"group": name, "queries": len(ranks), "images": pc.count_distinct(ranks["image_id"]).as_py()}
    row |= {address[-1]: value for address, value in figures.estimate().items() if address[-1].startswith("r@")}
    samples = intervals.sample([figures], resamples, seed) if resamples else [{}]
    drawn = {address[-1]: intervals.interval(draws) for address, draws in samples[0].items() if address[-1] in row}
    return rounded({**row, "intervals": drawn})


def show(title: str, figures: dict) -> None:
    """Print a table a direction. figures: result of ``measured``."""
    for direction in [direction for direction in DIRECTIONS if direction in figures]:
        rows = figures[direction]
        recalls = _recalls(rows[0])
        table = console.ruled(title=f"{title}, {direction}, worst group first")
        table.add_column(figures["column"])
        for name in ("queries", "images", *recalls):
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            cells = [f"{row[name]:.1f}" + _bracketed(row["intervals"].get(name)) for name in recalls]
            table.add_row(row["group"], str(row["queries"]), str(row["images"]), *cells)
        console.show(table)
    if DIRECTIONS[0] not in figures:
        console.say(f"{title}: {DIRECTIONS[0]} has no groups, because captions of one image are of several")


def _bracketed(interval: list[float] | None) -> str:
    return " [{:.1f}, {:.1f}]".format(*interval) if interval else ""
