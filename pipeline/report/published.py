"""What a paper printed, beside what was measured: for runs that name the row of a table they set out to repeat."""

from dataclasses import dataclass

from pipeline.report.results import Evaluation, Results

Row = tuple[str, float, float, float]


@dataclass(frozen=True)
class Published:
    """title: the paper's row; rows: (figure, published, ours, difference)."""

    run: str
    inference: str
    title: str
    rows: list[Row]


def collect(results: Results) -> list[Published]:
    """One for each run that names a row, under the criterion the report takes for its baseline. Raises InputError."""
    named = [(run.params.row, run.baseline) for run in results.runs() if run.params.row]
    return [Published(one.run, one.inference, row, _beside(row, one)) for row, one in named]


def _beside(row: str, one: Evaluation) -> list[Row]:
    from pipeline.papers.compare import beside

    return beside(row, one.metrics)
