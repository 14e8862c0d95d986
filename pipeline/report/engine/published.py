"""What a paper printed, beside what was measured: for runs that name the row of a table they set out to repeat."""

from dataclasses import dataclass

from pipeline.papers import catalogue, compare
from pipeline.report.engine.results import Evaluation, Results, RunResult

Row = tuple[str, float, float, float]


@dataclass(frozen=True)
class Table:
    """title: paper and row; rows: (figure, published, ours, difference), ours measured under ``inference``."""

    inference: str
    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Published:
    """A run and the row it repeats: a table for each criterion that the paper ranks this model under and the run has.

    kind: run or ensemble; cautions: what keeps our figures from being those of the row, a sentence each.
    """

    run: str
    kind: str
    row: str
    tables: list[Table]
    cautions: list[str]


def collect(results: Results) -> list[Published]:
    """One for each run that names a row, in the order of the page. Raises UsageError for a row that does not exist."""
    return [_published(run, run.row) for run in results.runs() if run.row]


def _published(run: RunResult, row: str) -> Published:
    tables = [table for one in run.evaluations.values() if (table := _table(one, row))]
    return Published(run.name, run.kind, row, tables, compare.cautions(row, run.baseline.metrics, run.params))


def _table(one: Evaluation, row: str) -> Table | None:
    found = compare.beside(row, one.metrics, one.inference)
    if not found:
        return None
    entry = compare.under(row)[one.inference]
    paper = catalogue.load(entry.paper)
    return Table(one.inference, f"{paper.title} ({paper.venue}), row {entry.id}", found)
