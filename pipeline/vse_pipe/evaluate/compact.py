"""The price of shorter and smaller vectors: figures of a run at several widths and precisions."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core import console
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import PipelineError, UsageError, unknown
from vse_pipe.evaluate import table
from vse_pipe.evaluate.ensemble import load_embeddings
from vse_pipe.evaluate.measure import results
from vse_pipe.evaluate.task import Task
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import criteria, outcomes
from vse_pipe.ranking.cascade import cascaded
from vse_pipe.ranking.codes import BINARY, EXACT, INT8, PRECISIONS, Codes, check_width, cut_short
from vse_pipe.ranking.criteria import Criterion, Trial, foldable
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import BankSource, Split, cosine
from vse_pipe.ranking.vectors import Vectors


class Forms(NamedTuple):
    """dims: beside the full width. precisions: float32 first. rescore: ``coded_trials``."""

    dims: list[int]
    precisions: list[str]
    rescore: int

    @classmethod
    def parse(cls, dims: str | None, precision: str | None, rescore: int | None) -> "Forms":
        """The command's options. Raises UsageError for others, and ``rescore`` alone."""
        try:
            widths = sorted({int(part) for part in dims.split(",")} if dims else set(), reverse=True)
        except ValueError as error:
            raise UsageError(f"--dims {dims}: expected whole numbers with commas between, such as 64,128") from error
        names = list(dict.fromkeys([EXACT, *(name.strip() for name in (precision or EXACT).split(","))]))
        for name in set(names) - set(PRECISIONS):
            raise UsageError(f"--precision: {unknown('precision', name, PRECISIONS)}")
        if rescore is not None and len(names) < 2:
            raise UsageError("--rescore is of small vectors; give --precision int8 or binary")
        return cls(widths, names, rescore or 0)


def run_figures(params: Params, run: str, inferences: Sequence[str], forms: Forms, device: str = "auto") -> list[dict]:
    """A metrics document for each width, precision and criterion, with ``dims``, ``precision``,
    ``rescore`` and ``bytes`` of an item; nothing is written. int8 has the ranges of split train.
    Parameters are those that the float32 vectors of that width choose.

    Raises UsageError for a run without unit vectors, an unknown precision and criteria that are
    more than one number an item, InputError where int8 finds no split train or these data do not
    allow a criterion."""
    chosen = [foldable(name, params.inference) for name in inferences]
    target = resolve_device(device)
    embedded = load_embeddings(params, run)
    is_unit = isinstance(embedded, Vectors) and embedded.images.about.get("normalised", "true") == "true"
    if embedded.compared_by != "cosine" or not is_unit:
        raise UsageError(f"run '{run}' has no unit vectors of one network; --dims and --precision are of those")
    task = Task.of_run(params, run, embedded, chosen, target)
    full, rows = task.split.images.shape[1], []  # type: ignore[union-attr]
    for dim in forms.dims:
        check_width(dim, full, "--dims", f"run '{run}'")
    for dim, precision in product(dict.fromkeys([full, *forms.dims]), forms.precisions):
        narrow, rescore = _cut(task, dim), 0 if precision == EXACT else forms.rescore
        if precision != EXACT:
            # The signs of binary need no ranges; their two values are means of the items.
            ranges = None if precision == BINARY else _cut_split(embedded.split("train", target), dim)
            narrow = _coded(narrow, ranges or narrow.split, precision, rescore)
        for _, result in results(narrow, chosen):
            if isinstance(result, PipelineError):
                raise result
            bytes_of = {EXACT: 4 * dim, INT8: dim, BINARY: -(-dim // 8)}
            size = bytes_of[precision] + 4 * result.criterion.needs_bank  # an item's bias stays float32
            form = {"dims": dim, "precision": precision, "rescore": rescore, "bytes": size}
            rows.append({"run": run, **result.metrics, **form})
    return rows


def _coded(task: Task, ranges: Any, precision: str, rescore: int) -> Task:
    codes = [Codes.fit(precision, items) for items in (ranges.captions, ranges.images)]
    by_direction, folds = dict(zip(DIRECTIONS, codes, strict=True)), outcomes.folds(task.split, task.options)
    return replace(task, trials=coded_trials(folds, task.bank, by_direction, task.options.memory, rescore))


def coded_trials(
    folds: Sequence[Split], bank: BankSource, codes: dict[str, Codes], memory: int, rescore: int
) -> dict[str, list[Trial]]:
    """Trials of float32 queries against coded items. codes: of the items, by direction. rescore:
    this many best items of each query are ordered by float32 vectors under the same criterion, 0:
    none.

    A criterion's bias is that of the coded items: that of float32 items is too large for binary
    codes, whose scores lie closer together."""
    coded = {}
    for direction, code in codes.items():
        smaller = [code.of_items(fold, direction) for fold in folds]
        coded[direction] = criteria.trials(smaller, bank, cosine, memory, 0)[direction]
    if not rescore:
        return coded
    exact = criteria.trials(folds, bank, cosine, memory)
    return {
        direction: [
            replace(trial, finish=partial(_rescored, full, rescore))
            for trial, full in zip(coded[direction], exact[direction], strict=True)
        ]
        for direction in codes
    }


def _rescored(exact: Trial, rescore: int, coded: Scores, criterion: Criterion) -> Scores:
    def pick(rows: Tensor, columns: Tensor) -> Tensor:
        strips = exact.under(criterion).blocks()
        return torch.cat([strip.gather(1, columns[part]) for part, strip in strips])

    return cascaded(coded, pick, rescore)


def _cut(task: Task, dim: int) -> Task:
    split, validation = (_cut_split(part, dim) for part in (task.split, task.validation))
    bank, validation_bank = (
        replace(part, split=_cut_split(part.split, dim)) for part in (task.bank, task.validation_bank)
    )
    return replace(task, split=split, bank=bank, validation=validation, validation_bank=validation_bank)


def _cut_split(split: Any, dim: int) -> Any:
    """split: of vectors, or None."""
    return split and replace(split, images=cut_short(split.images, dim), captions=cut_short(split.captions, dim))


def show(rows: Sequence[dict], as_json: bool) -> None:
    """rows: result of ``run_figures``; as JSON a list."""
    if as_json:
        return console.document(list(rows))
    labels = ["run", "inference", "dims", "precision", "bytes"]
    table.print_table(labels, {tuple(str(row[label]) for label in labels): row for row in rows})
    if rescore := max(row["rescore"] for row in rows):
        console.say(f"int8, binary: float32 vectors order the {rescore} best items of each query")
    return None
