"""Judgements and labels in files: Parquet, CSV, or text split at white space. Ids in them are text."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int64

from vse_pipe.artifacts import captions, images, joins
from vse_pipe.artifacts import names as text_names
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import memory, weights
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.external import readers
from vse_pipe.evaluate.external.readers import existing
from vse_pipe.evaluate.judged_data import Further, Labels
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking.metrics.graded import Graded

_SHOWN = 40


def read(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    bare: Sequence[Sequence[str]] = (),
    headed: bool = True,
) -> pd.DataFrame:
    """A table of text. bare: the columns of a text file without a header, chosen by their number. headed: a first line
    that has one of the names is a header.

    Raises MissingResource for a missing file, InputError for missing columns, empty or missing cells, or a file beyond
    the memory limit, IntegrityError for a damaged Parquet file."""
    if existing(path).is_dir():
        raise InputError(f"{path}: a folder, expected a file")
    if path.suffix == ".parquet":
        return _parquet(path, columns, optional)
    table = _text(path, [*columns, *optional] if headed else [], bare)
    absent = [name for name in columns if name not in table]
    if absent or table.empty:
        problem = (
            "no rows" if not absent else f"column '{absent[0]}' is missing" if headed else f"{table.shape[1]} columns"
        )
        expected = [f"a header with {', '.join(columns)}"] if headed else []
        expected += [f"lines of {' '.join(names)}" for names in bare]
        raise InputError(f"{path}: {problem}; expected {', or '.join(expected)}")
    return table


def _parquet(path: Path, columns: Sequence[str], optional: Sequence[str]) -> pd.DataFrame:
    table = readers.read_parquet(path, columns, optional)
    for name in table.column_names:
        kind = table[name].type
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_large_string)
        if not any(is_kind(kind) for is_kind in tests) or table[name].null_count:
            raise InputError(
                f"{path}: column '{name}' is {kind} with {table[name].null_count} nulls, expected text or numbers"
            )
    if not len(table):
        raise InputError(f"{path}: no rows")
    return pd.DataFrame({name: table[name].cast(pa.string()).to_numpy() for name in table.column_names}, dtype=object)


def _text(path: Path, names: Sequence[str], bare: Sequence[Sequence[str]]) -> pd.DataFrame:
    memory.require_text(path)
    split = {"sep": ","} if path.suffix == ".csv" else {"sep": r"\s+", "quoting": csv.QUOTE_NONE}
    try:
        table = pd.read_csv(path, header=None, dtype=object, keep_default_na=False, encoding="utf-8-sig", **split)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text") from error
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{path}: the file is empty") from error
    except pd.errors.ParserError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    if incomplete := np.flatnonzero((table.isna() | (table == "")).any(axis=1)).tolist():
        raise InputError(f"{path}: row {incomplete[0] + 1} has fewer than {table.shape[1]} fields, or an empty one")
    if set(table.iloc[0]) & set(names):
        if len(set(table.iloc[0])) < table.shape[1]:
            raise InputError(f"{path}: its header names a column twice")
        return table.iloc[1:].set_axis(table.iloc[0].tolist(), axis=1).reset_index(drop=True)
    columns_of_bare = next((columns for columns in bare if len(columns) == table.shape[1]), None)
    return table.set_axis(columns_of_bare or list(map(str, table.columns)), axis=1)


def numbers(path: Path, table: pd.DataFrame, name: str) -> Float[np.ndarray, " rows"]:
    """A column as float64. Raises InputError for a cell that is not a finite number."""
    values = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        cell = str(table[name].iloc[wrong[0]])[:_SHOWN]
        raise InputError(f"{path}: row {wrong[0] + 1}: {name} {cell!r} is not a finite number")
    return values


NOWHERE = -1


@dataclass(frozen=True)
class Names:
    """The names of images or captions, null for none, with their ids. A repeated name stands for its first id."""

    names: pa.Array
    ids: Int64[np.ndarray, " names"]

    @classmethod
    def from_ids(cls, ids: Int64[np.ndarray, " rows"]) -> "Names":
        return cls(pa.array(ids).cast(pa.string()), ids)

    @classmethod
    def from_key(cls, key: str, ids: Int64[np.ndarray, " rows"], texts: TextIds | None) -> "Names":
        """key: image_id or caption_id. texts: the texts of ids that are text."""
        labels = None if texts is None else texts.texts(key, ids)
        return cls.from_ids(ids) if labels is None else cls(labels, ids)

    def also(self, names: Iterable[str], ids: Int64[np.ndarray, " rows"]) -> "Names":
        more = pa.array(list(names), pa.string(), from_pandas=True)
        return Names(pa.concat_arrays([self.names, more]), np.concatenate([self.ids, ids]))

    def find(self, texts: Iterable[str]) -> Int64[np.ndarray, " texts"]:
        """The ids of the names, NOWHERE for an unknown name."""
        places = pc.fill_null(pc.index_in(pa.array(texts, pa.string()), value_set=self.names), NOWHERE).to_numpy()
        return np.where(places == NOWHERE, NOWHERE, self.ids[places])


def dataset_names(folder: Path, ranked: joins.Origin) -> tuple[Names, Names]:
    """The names of the images and captions of data/prepare/<dataset>/. ranked: the origin of the vectors with these
    ids.

    An image has its id, its path and its file name as names. A caption has its id, and the file name with ``#0``,
    ``#1``, ... in the order of the data set, as in Flickr8k and Flickr30k. File names that occur in several folders are
    no names. Raises as ``joins.compared``."""
    with joins.compared(folder, ranked):
        image_table, caption_table, texts = (
            images.read(folder).to_pandas(),
            captions.read(folder).to_pandas(),
            text_names.read(folder),
        )
    files = image_table["file"].str.rpartition("/")[2]
    files = files.mask(files.duplicated(keep=False))
    pictures = Names.from_key("image_id", image_table["image_id"].to_numpy(), texts).also(
        image_table["file"], image_table["image_id"].to_numpy()
    )
    owners = caption_table["image_id"].map(pd.Series(files.to_numpy(), index=image_table["image_id"]))
    numbered = owners + "#" + caption_table.groupby("image_id", sort=False).cumcount().astype(str)
    ids = caption_table["caption_id"].to_numpy()
    return pictures.also(files, image_table["image_id"].to_numpy()), Names.from_key("caption_id", ids, texts).also(
        numbered, ids
    )


_PAIR = ("image_id", "caption_id")
_TREC = ("caption_id", "iteration", "image_id", "grade")
# Flickr8k's ExpertAnnotations.txt and CrowdFlowerAnnotations.txt: three columns of figures.
_FLICKR8K = (*_PAIR, "first", "second", "third")
_EXPERT = (1, 2, 3, 4)
_ROUNDING = 0.01


def read_judgements(params: EvaluateParams, images: Names, captions: Names) -> Further | None:
    """The contents of ``params.judgements`` and ``params.labels``, or None. Rows with unknown images or captions are
    left out with a warning. Raises InputError as ``read`` does, and when no row is left."""
    if not (params.judgements or params.labels):
        return None
    with memory.limit(params.memory, "evaluate.memory"):
        return Further(
            _graded(path, params.correct_above, images, captions)
            if (path := _pinned(params, params.judgements))
            else None,
            _labels(path, images) if (path := _pinned(params, params.labels)) else None,
        )


def _pinned(params: EvaluateParams, file: str | dict[str, str] | None) -> Path | None:
    """The path. Raises IntegrityError when the file does not have the digest in ``params.sha256``."""
    if file is None:
        return None
    assert isinstance(file, str), "evaluate has taken that of its data set"
    if digest := params.sha256.get(file):
        weights.check(existing(Path(file)), digest)
    return Path(file)


def _graded(path: Path, above: float, images: Names, captions: Names) -> Graded:
    table = read(path, _PAIR, ["grade"], [_TREC, _FLICKR8K])
    if "grade" not in table and set(_FLICKR8K) <= set(table):
        table = _flickr8k(path, table)
    if "grade" not in table:
        raise InputError(f"{path}: column 'grade' is missing")
    grades = numbers(path, table, "grade")
    if (grades < 0).any():
        raise InputError(
            f"{path}: row {np.flatnonzero(grades < 0)[0] + 1}: a grade below 0; 0 is for nothing in common"
        )
    sides = [names.find(table[key]) for names, key in zip((images, captions), _PAIR, strict=True)]
    for ids, key in zip(sides, _PAIR, strict=True):
        _warn_of_missing(path, ids, table[key], key)
    present = np.logical_and(*(ids != NOWHERE for ids in sides))
    if not present.any():
        raise InputError(f"{path}: none of its {len(table)} judgements is of an image and a caption that are there")
    return Graded(sides[0][present], sides[1][present], grades[present], above)


def _flickr8k(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """One row an expert, with grades 0 to 3 for 1 to 4; or one row a pair, with the crowd's share of Yes, 0 to 1.

    The two kinds differ: grades of experts are never 0; a row of the crowd has a 0 or a share below 1.
    """
    figures = np.stack([numbers(path, table, name) for name in _FLICKR8K[2:]], axis=1)
    pairs = table[list(_PAIR)]
    if np.isin(figures, _EXPERT).all():
        return pd.concat([pairs.assign(grade=of_one - 1) for of_one in figures.T], ignore_index=True)
    share, yes, no = figures.T
    wrong = np.flatnonzero(~(np.abs(share * (yes + no) - yes) <= _ROUNDING * (yes + no)) | (yes + no < 1))
    if len(wrong):
        raise InputError(
            f"{path}: row {wrong[0] + 1}: expected grades of three experts, 1 to 4, or a share of Yes and how many said Yes and No"
        )
    return pairs.assign(grade=share)


def _labels(path: Path, images: Names) -> Labels:
    table = read(path, ["image_id", "label"], bare=[("image_id", "label")])
    image_ids = images.find(table["image_id"])
    _warn_of_missing(path, image_ids, table["image_id"], "image_id")
    present = image_ids != NOWHERE
    if not present.any():
        raise InputError(f"{path}: none of its images is there")
    ids, rows = np.unique(image_ids[present], return_inverse=True)
    names, columns = np.unique(table["label"].to_numpy(dtype=str)[present], return_inverse=True)
    has = np.zeros((len(ids), len(names)), np.float32)
    has[rows, columns] = 1
    return Labels(ids, has)


def _warn_of_missing(path: Path, ids: np.ndarray, named: Sequence[str], key: str) -> None:
    absent = pd.unique(pd.Series(named)[ids == NOWHERE])
    if len(absent):
        warn(
            f"{path}: {len(absent)} of {pd.Series(named).nunique()} {key}s are not there, the first is {absent[0]}; they are left out"
        )
