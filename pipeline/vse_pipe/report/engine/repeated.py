"""A run with seeds as one row: the mean of its models, and how far chance in seeds and images reaches."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vse_pipe.core.errors import InputError
from vse_pipe.project.params.typed import Params
from vse_pipe.report.engine.results import Evaluation, Results, RunResult


@dataclass(frozen=True)
class RepeatedEvaluation(Evaluation):
    """metrics: the means over the seeds, with intervals that hold both sources of chance; the tables are those of the first
    seed. deviations: standard deviation between the seeds, by the keys of metrics; empty of a single seed."""

    deviations: dict = field(default_factory=dict)


def repeated(name: str, runs: Sequence[RunResult], params: Params) -> RunResult:
    """runs: its models; criteria that one of them lacks are left out. Raises InputError where nothing is left,
    or they are of different data."""
    first = runs[0]
    common = [one for one in first.evaluations if all(one in run.evaluations for run in runs)]
    if not common:
        raise InputError(f"run {name}: its seeds have no criterion in common; run `vse-pipe evaluate --run {name}`")
    if len({run.evaluations[one].metrics.get("data") for run in runs for one in common}) > 1:
        raise InputError(
            f"run {name}: its seeds were evaluated on different data; run `vse-pipe evaluate --run {name}` again"
        )
    found: dict[str, Evaluation] = {
        one: _evaluation(name, [run.evaluations[one] for run in runs], params) for one in common
    }
    return RunResult(name, first.params, None, found, row=first.row, repetitions=tuple(runs), moved=first.moved)


def _evaluation(name: str, ones: list[Evaluation], params: Params) -> RepeatedEvaluation:
    first, documents = ones[0], [one.metrics for one in ones]
    metrics = mean(documents)
    metrics.pop("intervals", None)
    if params.evaluate.resamples > 1:
        metrics["intervals"] = _intervals(ones, params.evaluate.resamples, params.seed)
    deviations = _numbers(documents, _deviation) if len(ones) > 1 else {}
    return RepeatedEvaluation(
        name, first.inference, metrics, first.ranks, first.occurrence, first.relaxation, deviations
    )


def _intervals(ones: list[Evaluation], resamples: int, seed: int) -> dict:
    # Numba takes a second to import, which reports without seeds need not wait for.
    from vse_pipe.ranking.comparison import spreads
    from vse_pipe.ranking.intervals import Figures, nest, within

    found: dict = {}
    for address, spread in spreads([Figures.of(one.ranks, one.occurrence) for one in ones], resamples, seed).items():
        nest(found, address, within(address, spread.interval()))
    return found


def localised(results: Results, run: RunResult) -> dict | None:
    """What localize has measured, of a run with seeds the mean of its models."""
    found = [results.localised[one.name].metrics for one in run.repetitions or (run,) if one.name in results.localised]
    return mean(found) if found else None


def mean(documents: Sequence[dict]) -> dict:
    """Of every number, by the keys of the documents; counts that agree stay whole, what else they hold is the first one's."""
    return _merged(documents[0], _numbers(documents, _mean))


def _mean(values: list) -> float | None:
    """None where a figure is not defined for one of them."""
    return None if None in values else statistics.fmean(values)


def _deviation(values: list) -> float | None:
    return None if None in values else statistics.stdev(values)


def _numbers(documents: Sequence[dict], of: Callable[[list], float | None]) -> dict:
    """``of`` the values of every number that all documents have, null among them."""
    found: dict = {}
    for key, value in documents[0].items():
        values = [one.get(key) for one in documents]
        below = [one for one in values if isinstance(one, dict)]
        if isinstance(value, dict) and len(below) == len(values):
            found[key] = _numbers(below, of)
        elif set(map(type, values)) - {int, float, type(None)} or all(one is None for one in values):
            continue
        elif all(key in document for document in documents):
            found[key] = of(values)
    return found


def _merged(first: dict, means: dict) -> dict:
    found = dict(first)
    for key, value in means.items():
        whole = isinstance(first[key], int) and value == first[key]
        found[key] = _merged(first[key], value) if isinstance(value, dict) else first[key] if whole else value
    return found
