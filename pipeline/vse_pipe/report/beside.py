"""Published figures next to measured ones."""

from dataclasses import dataclass

from vse_pipe.papers import catalogue, compare
from vse_pipe.report.reading import localised
from vse_pipe.report.results import BASELINE, Results, RunResult

Row = tuple[str, float, float, float]


@dataclass(frozen=True)
class Table:
    """ranking: "ranked with nns" or "localised". title: paper and row. rows: (figure, published, ours, difference)."""

    ranking: str
    title: str
    rows: list[Row]


@dataclass(frozen=True)
class Published:
    """A run and the row it repeats, with a table for each common criterion or for its localisation.

    kind: run or ensemble. cautions: differences from the setting of the row, one sentence each.
    """

    run: str
    kind: str
    row: str
    tables: list[Table]
    cautions: list[str]


def collect(results: Results) -> list[Published]:
    """One entry for each run that names a row, in the order of the page. Raises UsageError for an unknown row."""
    return [_published(run, run.row, localised(results, run)) for run in results.methods() if run.row]


def _published(run: RunResult, row: str, localisation: dict | None) -> Published:
    measured = [
        (f"ranked with {result.inference}", result.metrics, result.inference) for result in run.evaluations.values()
    ]
    if localisation:
        measured.append(("localised", localisation, BASELINE))
    tables = [table for figures in measured if (table := _table(*figures, row))]
    metrics = {**run.baseline.metrics, **(localisation or {})}
    return Published(run.name, run.kind, row, tables, compare.cautions(row, metrics, run.params))


def _table(ranking: str, metrics: dict, inference: str, row: str) -> Table | None:
    rows = compare.beside(row, metrics, inference)
    if not rows:
        return None
    entry = compare.under(row)[inference]
    paper = catalogue.load(entry.paper)
    return Table(ranking, f"{paper.title} ({paper.venue}), row {entry.id}", rows)
