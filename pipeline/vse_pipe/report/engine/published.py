"""What a paper printed, beside what was measured: for runs that name the row of a table they set out to repeat."""

from dataclasses import dataclass

from vse_pipe.papers import catalogue, compare
from vse_pipe.report.engine.repeated import localised
from vse_pipe.report.engine.results import BASELINE, Results, RunResult

Row = tuple[str, float, float, float]


@dataclass(frozen=True)
class Table:
    """title: paper and row; rows: (figure, published, ours, difference); how ours came about: "ranked with nns", "localised"."""

    how: str
    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Published:
    """A run and the row it repeats: a table for each criterion that the paper ranks this model under and the run has, or of its
    localisation.

    kind: run or ensemble; cautions: what keeps our figures from being those of the row, a sentence each.
    """

    run: str
    kind: str
    row: str
    tables: list[Table]
    cautions: list[str]


def collect(results: Results) -> list[Published]:
    """One for each run that names a row, in the order of the page. Raises UsageError for a row that does not exist."""
    return [_published(run, run.row, localised(results, run)) for run in results.methods() if run.row]


def _published(run: RunResult, row: str, found: dict | None) -> Published:
    measured = [(f"ranked with {one.inference}", one.metrics, one.inference) for one in run.evaluations.values()]
    if found:
        measured.append(("localised", found, BASELINE))
    tables = [table for one in measured if (table := _table(*one, row))]
    metrics = {**run.baseline.metrics, **(found or {})}
    return Published(run.name, run.kind, row, tables, compare.cautions(row, metrics, run.params))


def _table(how: str, metrics: dict, inference: str, row: str) -> Table | None:
    found = compare.beside(row, metrics, inference)
    if not found:
        return None
    entry = compare.under(row)[inference]
    paper = catalogue.load(entry.paper)
    return Table(how, f"{paper.title} ({paper.venue}), row {entry.id}", found)
