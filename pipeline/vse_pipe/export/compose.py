"""compose: how often a model prefers the correct pairs of sets such as Winoground."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from vse_pipe.artifacts.names import KEYS
from vse_pipe.core import console, memory
from vse_pipe.core.console import document, line, ruled
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate import text_tables
from vse_pipe.evaluate.ensemble import load_embeddings
from vse_pipe.evaluate.judgements import NOWHERE, dataset_names, find, names_of
from vse_pipe.evaluate.rank import VectorSets, task_of_vectors
from vse_pipe.evaluate.task import Task
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import cascade, recall
from vse_pipe.ranking.recall import places
from vse_pipe.ranking.rows import PRODUCTS


def show(figures: dict, as_json: bool) -> None:
    """Print figures of ``compose_run`` or ``compose_vectors``."""
    if as_json:
        document(figures)
        return
    scores = list(figures["chance"])
    table = ruled()
    table.add_column("category")
    for name in ("sets", *scores):
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in {"all": figures, **figures.get("categories", {})}.items():
        ends = (row["intervals"][score] for score in scores)
        cells = (f"{row[score]:.1f} [{low:.1f}, {high:.1f}]" for score, (low, high) in zip(scores, ends, strict=True))
        table.add_row(name, str(row["sets"]), *cells)
    table.add_row("chance", "", *(f"{figures['chance'][score]:.1f}" for score in scores))
    console.show(table)
    line(f"{figures['file']}: share of sets in percent, in brackets the 95% interval; an equal score is no preference")


_TWO_BY_TWO = ("image_0", "caption_0", "image_1", "caption_1")
_TRUE_OR_FALSE = ("image_id", "caption_id", "negative_id")
_CATEGORY = "category"
_DIGITS = 6


def compose_run(params: Params, run: str, sets: Path, device: str = "auto") -> dict:
    """Figures of a run or an ensemble on the split ``evaluate.split``, in percent.

    sets: a table of sets. Raises InputError for a file with other columns or with ids that are not
    embedded, IntegrityError for embeddings of another model or of other data than the present ones.
    """
    resolved = resolve_device(device)
    options = params.evaluate.model_copy(update={"bank": "test"})  # no criterion corrects scores, so no bank is needed
    task = Task.of_run(replace(params, evaluate=options), run, load_embeddings(params, run), [], resolved)
    names = dataset_names(paths.prepared(params.dataset(run)))
    return _figures(sets, task, names, params.evaluate)


def compose_vectors(sources: VectorSets, params: EvaluateParams, sets: Path, device: str = "auto") -> dict:
    """Figures as in ``compose_run``, for vectors in files, which need not be paired."""
    task = task_of_vectors(sources, params, resolve_device(device), paired=False)
    images, captions = zip(KEYS, (task.split.image_ids, task.split.caption_ids), strict=True)
    return _figures(sets, task, (names_of(*images, task.names), names_of(*captions, task.names)), params)


def _figures(path: Path, task: Task, names: tuple[pd.Series, pd.Series], params: EvaluateParams) -> dict:
    with memory.limit(params.memory, "evaluate.memory"):
        table = _read(path)
    ids = task.split.image_ids, task.split.caption_ids
    rows = {}
    for column in table.columns.drop(_CATEGORY, errors="ignore"):
        side = 0 if column.startswith("image") else 1
        rows[column] = places(ids[side], find(names[side], table[column]))
        absent = np.flatnonzero(rows[column] == NOWHERE)
        if len(absent):
            raise InputError(
                f"{path}: row {absent[0] + 1}: {column} {table[column].iloc[absent[0]]} is not among the {len(ids[side])} "
                f"{('images', 'captions')[side]} that are there; {len(absent)} rows name such"
            )
    answers = _answers(task, rows, params.memory)
    figures: dict = {"file": str(path), **task.about, **_shares(answers)}
    if _CATEGORY in table:
        categories = table[_CATEGORY].to_numpy(dtype=str)
        figures["categories"] = {
            name: _shares({key: right[categories == name] for key, right in answers.items()})
            for name in np.unique(categories).tolist()
        }
    return figures


def _read(path: Path) -> pd.DataFrame:
    table = text_tables.read(path, [], [*_TWO_BY_TWO, *_TRUE_OR_FALSE, _CATEGORY])
    for columns in (_TWO_BY_TWO, _TRUE_OR_FALSE):
        if set(columns) <= set(table.columns):
            return table[[name for name in (*columns, _CATEGORY) if name in table.columns]]
    raise InputError(f"{path}: expected a header with {', '.join(_TWO_BY_TWO)}, or with {', '.join(_TRUE_OR_FALSE)}")


def _answers(task: Task, rows_by_column: dict[str, np.ndarray], memory: int) -> recall.Answers:
    inner = task.about["similarity"] in PRODUCTS

    def scored(images: Sequence[str], captions: Sequence[str]) -> np.ndarray:
        """(sets, pairs); ``images`` and ``captions`` are columns of the table in parallel."""
        rows, columns = (np.stack([rows_by_column[name] for name in keys]).ravel() for keys in (images, captions))
        return cascade.scores(task.split, task.similarity, inner, rows, columns, memory).reshape(len(images), -1).T

    if "negative_id" in rows_by_column:
        scores = scored(["image_id"] * 2, ["caption_id", "negative_id"])
        return recall.true_or_false(scores[:, 0], scores[:, 1])
    scores = scored(["image_0", "image_0", "image_1", "image_1"], ["caption_0", "caption_1"] * 2)
    return recall.two_by_two(scores.reshape(-1, 2, 2))


def _shares(answers: recall.Answers) -> dict:
    """Shares of sets in percent, with Wilson's 95% intervals and chance."""
    from scipy.stats import binomtest

    figures: dict = {"sets": len(next(iter(answers.values()))), "intervals": {}, "chance": {}}
    for name, right in answers.items():
        figures[name] = round(100.0 * float(right.mean()), _DIGITS)
        ends = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
        figures["intervals"][name] = [round(100.0 * end, _DIGITS) for end in (ends.low, ends.high)]
        figures["chance"][name] = round(recall.SET_CHANCE[name], _DIGITS)
    return figures
