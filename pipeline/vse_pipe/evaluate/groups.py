"""Figures by group of queries: recall, with its interval, for each value of a column about captions; worst group first."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.evaluate import judgements
from vse_pipe.evaluate.judgements import NOWHERE, Names
from vse_pipe.evaluate.measure import rounded
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import intervals
from vse_pipe.ranking.intervals import Figures

LENGTH = "length"
MOST = 50
# Numbers with more different values than this are cut into quarters of the captions.
_FEW_NUMBERS = 8
_QUARTERS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Groups:
    """The group of each caption by the values of ``column``. names: of the groups; codes: by ascending caption id, the
    place of its group in ``names``."""

    column: str
    caption_ids: np.ndarray
    names: list[str]
    codes: np.ndarray

    @classmethod
    def from_values(cls, column: str, caption_ids: np.ndarray, values: Iterable[str]) -> "Groups":
        """values: text, one for each caption. More than 8 different numbers are cut at their quartiles.

        Raises InputError for an empty value, UsageError for more than 50 groups."""
        order = np.argsort(caption_ids)
        texts = pd.Series(list(values), dtype=object).iloc[order]
        if len(empty := np.flatnonzero(texts.isna() | (texts == ""))):
            first = caption_ids[order][empty[0]]
            raise InputError(f"--by {column}: {len(empty)} captions have no value, the first is caption_id {first}")
        numbers = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
        codes, names = pd.factorize(texts)
        if np.isfinite(numbers).all() and len(names) > _FEW_NUMBERS:
            edges = np.quantile(numbers, _QUARTERS, method="inverted_cdf")
            quarters, codes = np.unique(np.searchsorted(edges, numbers), return_inverse=True)
            parts = (numbers[codes == code] for code in range(len(quarters)))
            names = [f"{part.min():g} to {part.max():g}" for part in parts]
        if len(names) > MOST:
            raise UsageError(f"--by {column}: {len(names):,} different values; a table has at most {MOST} groups")
        return cls(column, caption_ids[order], list(names), codes)

    def of(self, caption_ids: np.ndarray) -> np.ndarray:
        return self.codes[np.searchsorted(self.caption_ids, caption_ids)]

    def of_images(self, ranks: pa.Table, caption_images: np.ndarray) -> np.ndarray | None:
        """The group of the image of each row; None where captions of one image are of several groups. caption_images:
        by ascending caption id."""
        images, places = np.unique(caption_images, return_inverse=True)
        codes = np.empty(len(images), np.int64)
        codes[places] = self.codes
        if (codes[places] != self.codes).any():
            return None
        rows = np.searchsorted(images, ranks["query_id"].to_numpy()).clip(max=len(images) - 1)
        return codes[rows] if np.array_equal(images[rows], ranks["query_id"].to_numpy()) else None


def read(params: EvaluateParams, ranked: np.ndarray, names: Names | None, prepared: Path | None) -> Groups | None:
    """The groups of ``params.by``, from the file ``params.groups`` or from data/prepare/<dataset>/captions.parquet, where
    ``length`` counts words. ranked: ids of the captions; names: of captions in the file; prepared: None without a data set.

    Raises UsageError for an unknown column, InputError for captions without a row, and as ``judgements.read``."""
    if params.by is None:
        if params.groups is not None:
            raise UsageError("--groups is a file of several columns; name one with --by")
        return None
    if params.groups is not None:
        assert names is not None
        path = judgements.pinned(params, params.groups)
        assert path is not None
        table = judgements.read(path, ["caption_id", params.by])
        ids, values = names.find(table["caption_id"]), table[params.by].to_numpy()
        where = str(path)
    elif prepared is not None:
        columns = ["caption_id", "image_id", "text", "split"]
        if params.by not in (*columns, LENGTH):
            listed = unknown("column", params.by, [*columns, LENGTH])
            raise UsageError(f"--by: {listed}; --groups names a file with further ones")
        held = captions.read(
            prepared, columns=list(dict.fromkeys(["caption_id", "text" if params.by == LENGTH else params.by]))
        )
        ids, column = held["caption_id"].to_numpy(), held[held.column_names[-1]]
        column = pc.list_value_length(pc.utf8_split_whitespace(column)) if params.by == LENGTH else column
        values, where = column.cast(pa.string()).to_numpy(zero_copy_only=False), str(prepared / captions.NAME)
    else:
        raise UsageError("--by needs --groups, a file with caption_id and that column")
    known = ids != NOWHERE
    places = pd.Index(ids[known]).get_indexer(ranked) if pd.Index(ids[known]).is_unique else None
    if places is None or (places < 0).any():
        problem = (
            "a caption_id occurs more than once"
            if places is None
            else f"{(places < 0).sum()} ranked captions have no row"
        )
        first = "" if places is None else f", the first is caption_id {ranked[np.flatnonzero(places < 0)[0]]}"
        raise InputError(f"{where}: {problem}{first}")
    return Groups.from_values(params.by, ranked, values[known][places])


def measured(
    groups: Groups, ranks: pa.Table, occurrence: pa.Table, caption_images: np.ndarray, resamples: int, seed: int
) -> dict:
    """``{"column", direction: [{"group", "queries", "images", "r@1", ..., "intervals": {"r@1": [low, high]}}]}``, the group
    with the least sum of R@K first. Images are queries of a group where all captions of each are of one group; else the
    direction is absent. caption_images: in the order of ``groups.caption_ids``. Intervals are those of
    ``ranking.intervals`` over the images of the group."""
    figures: dict = {"column": groups.column}
    for direction in DIRECTIONS:
        rows = ranks.filter(pc.equal(ranks["direction"], direction))
        items = occurrence.filter(pc.equal(occurrence["direction"], direction))
        codes = (
            groups.of_images(rows, caption_images)
            if direction == DIRECTIONS[0]
            else groups.of(rows["query_id"].to_numpy())
        )
        if codes is None:
            continue
        parts = [(name, rows.filter(pa.array(codes == code))) for code, name in enumerate(groups.names)]
        found = [_row(name, part, items, resamples, seed) for name, part in parts if len(part)]
        figures[direction] = sorted(
            found, key=lambda row: sum(value for key, value in row.items() if key.startswith("r@"))
        )
    return figures


def _row(name: str, ranks: pa.Table, occurrence: pa.Table, resamples: int, seed: int) -> dict:
    tables = Figures.from_tables(ranks, occurrence)
    # Without ranks there are means only: hubness is of all queries together.
    sides = {fold: {key: replace(side, ranks=None) for key, side in of.items()} for fold, of in tables.sides.items()}
    figures = Figures(sides)
    values = {address[-1]: value for address, value in figures.estimate().items() if address[-1].startswith("r@")}
    row = {"group": name, "queries": len(ranks), "images": pc.count_distinct(ranks["image_id"]).as_py()}
    drawn = {}
    if resamples:
        (sample,) = intervals.sample([figures], resamples, seed)
        drawn = {address[-1]: intervals.interval(draws) for address, draws in sample.items() if address[-1] in values}
    return rounded({**row, **values, "intervals": drawn})


def show(title: str, figures: dict) -> None:
    """Print a table a direction. figures: result of ``measured``."""
    for direction in DIRECTIONS:
        if direction not in figures:
            console.say(
                f"{title}: {direction} has no groups, since images have captions of several; see the other direction"
            )
            continue
        rows = figures[direction]
        table = console.ruled(title=f"{title}, {direction} by {figures['column']}, worst first", title_justify="left")
        names = [key for key in rows[0] if key.startswith("r@")]
        for number, column in enumerate([figures["column"], "queries", "images", *names]):
            table.add_column(column, justify="right" if number else "left", overflow="fold")
        for row in rows:
            cells = [_with_interval(row[name], row["intervals"].get(name)) for name in names]
            table.add_row(row["group"], str(row["queries"]), str(row["images"]), *cells)
        console.stdout.print(table)


def _with_interval(value: float, interval: list[float] | None) -> str:
    return f"{value:.1f}" + (f" [{interval[0]:.1f}, {interval[1]:.1f}]" if interval else "")
