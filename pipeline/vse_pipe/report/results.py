"""Results of runs, audits and localisations, as the sections of the page use them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import identity
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.ranking.comparison import spreads
from vse_pipe.ranking.intervals import Figures, nest, within


@dataclass(frozen=True)
class Audit:
    """metrics: of audit. pairs: by caption_id. histogram: of losses. costs: by epoch, or None."""

    run: str
    metrics: dict
    pairs: pd.DataFrame
    histogram: pd.DataFrame
    costs: pd.DataFrame | None


@dataclass(frozen=True)
class PairAudit:
    """metrics: of the audit of the pairs of ``noise``; suspects: its most doubtful pairs, with the
    columns of doubts.parquet, and ``proposal`` and ``other`` of the findings; catalogue: of the
    data set."""

    noise: str
    metrics: dict
    suspects: pd.DataFrame
    catalogue: Catalogue


BASELINE = "nns"
SUMS = ("rsum", "hs_sum")
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Evaluation:
    """One run under one criterion: metrics and tables of artifacts.evaluation. Of a run with seeds
    the metrics are means, their intervals cover the draw of images and of seeds, and ``deviations``
    has the standard deviations of the sums over seeds; empty for a single one."""

    run: str
    inference: str
    metrics: dict
    ranks: pa.Table
    occurrence: pa.Table
    relaxation: pa.Table | None = None
    deviations: dict[str, float] = field(default_factory=dict)

    @property
    def rsum(self) -> float:
        return self.metrics["rsum"]

    @property
    def interval(self) -> tuple[float, float] | None:
        return self.interval_of(("rsum",))

    def interval_of(self, path: tuple[str, ...]) -> tuple[float, float] | None:
        """A figure's 95% bootstrap interval over images, if any. path: keys into metrics.json."""
        ends = self.metrics.get("intervals", {})
        for key in path:
            ends = ends.get(key, {})
        return tuple(ends) if ends else None

    @property
    def transductive(self) -> bool:
        """Does a query's result depend on the other queries?"""
        return self.metrics["transductive"]

    @cached_property
    def matching(self) -> bool:
        """Matchings (gm, rgm) assign sets, so a query has hits at K but no rank."""
        return self.ranks["rank"].null_count == self.ranks.num_rows

    def queries(self, direction: str) -> pd.DataFrame:
        """The rows of ranks.parquet in one direction, indexed by query_id in ascending order."""
        rows = self.ranks.filter(pc.equal(self.ranks["direction"], direction)).to_pandas()
        return rows.set_index("query_id").sort_index()

    def lists(self, direction: str) -> tuple[np.ndarray, pa.ListArray]:
        """query_ids in one direction, in the file's order, and the items of each, best first."""
        rows = self.ranks.filter(pc.equal(self.ranks["direction"], direction))
        top = rows["top"].combine_chunks()
        return rows["query_id"].to_numpy(), top.chunk(0) if isinstance(top, pa.ChunkedArray) else top

    def items(self, direction: str) -> pd.DataFrame:
        """The rows of occurrence.parquet in one direction."""
        return self._items[direction]

    @cached_property
    def _items(self) -> dict[str, pd.DataFrame]:
        return {str(direction): rows for direction, rows in self.occurrence.to_pandas().groupby("direction")}


@dataclass(frozen=True)
class RunResult:
    """params: of the run; of a transfer, those of its run; None for an ensemble. history: one row
    per epoch. evaluations: in the order of grid.inferences; the means over ``repetitions``, the
    models of a run with seeds. parts: the runs of an ensemble. row: a row of a paper, if named.
    config: config.json of the run. moved: of a transfer."""

    name: str
    params: Run | None
    history: pd.DataFrame | None
    evaluations: dict[str, Evaluation]
    parts: tuple[str, ...] = ()
    row: str | None = None
    config: dict = field(default_factory=dict)
    repetitions: tuple["RunResult", ...] = ()
    moved: bool = False

    @property
    def kind(self) -> str:
        return "ensemble" if self.parts else "transfer" if self.moved else "run"

    @property
    def seeds(self) -> list[int]:
        return [run.params.seed for run in self.repetitions if run.params is not None]

    @property
    def data(self) -> str | None:
        """Digest of the ranked data; None when the evaluations have no digest or different ones."""
        digests = {result.metrics.get("data") for result in self.evaluations.values()}
        return digests.pop() if len(digests) == 1 else None

    @property
    def best(self) -> Evaluation:
        return max(self.evaluations.values(), key=lambda result: result.rsum)

    @property
    def baseline(self) -> Evaluation:
        """Nearest neighbours if the grid has them, else its first criterion."""
        return self.evaluations.get(BASELINE) or next(iter(self.evaluations.values()))

    @property
    def contrast(self) -> Evaluation:
        """The criterion beside the baseline: the best ranking, else matching, else itself."""
        rest = [result for result in self.evaluations.values() if result is not self.baseline]
        ranking = [result for result in rest if not result.matching]
        return max(ranking or rest or [self.baseline], key=lambda result: result.rsum)


def best_epoch(history: pd.DataFrame) -> pd.Series:
    """The row of the model that training kept."""
    return history.loc[history["val_rsum"].idxmax()]


@dataclass(frozen=True)
class TrainedRun(RunResult):
    """A run that was trained here, with parameters and a history."""

    params: Run
    history: pd.DataFrame

    def member(self, kind: str) -> str:
        """The name of the loss, scheme, ... of the training."""
        recorded = self.config.get(kind)
        return recorded["name"] if recorded else getattr(self.params, kind).name

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of the training inputs and of the weights, by name."""
        of_files = self.config.get("sha256")
        read = identity.inputs_of(paths.trained(self.name)).values()
        digests = {name: digest for parts in read for name, digest in parts.items()}
        if isinstance(of_files, dict) and _WEIGHTS in of_files:
            digests["weights"] = of_files[_WEIGHTS]
        return digests


@dataclass(frozen=True)
class Group:
    """Comparable results of a data set: runs, ensembles, transfers. Seeds are one method."""

    catalogue: Catalogue
    methods: list[RunResult]

    @property
    def runs(self) -> list[RunResult]:
        """The models; a run with seeds has several, such as ``max/1``."""
        return [run for method in self.methods for run in method.repetitions or (method,)]

    @property
    def first_models(self) -> list[RunResult]:
        """One model a method, for single queries and items: the first seed."""
        return [method.repetitions[0] if method.repetitions else method for method in self.methods]

    @property
    def best_run(self) -> RunResult:
        """The first model of the best method."""
        best = self.best_method
        return best.repetitions[0] if best.repetitions else best

    @property
    def best_method(self) -> RunResult:
        return max(self.methods, key=lambda run: run.best.rsum)

    @property
    def plain_method(self) -> RunResult:
        """The method with the largest rsum under nearest neighbours, or the first criterion."""
        plain = [method for method in self.methods if BASELINE in method.evaluations]
        return max(plain or self.methods, key=lambda run: run.baseline.rsum)

    @property
    def trained(self) -> list[TrainedRun]:
        """The runs, without ensembles and transfers."""
        return [run for run in self.runs if isinstance(run, TrainedRun)]

    @property
    def with_curves(self) -> list[TrainedRun]:
        return [run for run in self.trained if len(run.history)]

    def evaluations(self) -> list[Evaluation]:
        return [result for run in self.methods for result in run.evaluations.values()]


@dataclass(frozen=True)
class Results:
    """audits, localised: by run. cleaning: audits of pairs, by noise. missing: each missing output
    of params.yaml with the reason. unconverged: by run, ensemble and transfer, and by their seeds,
    why trainings below it have not."""

    params: Params
    groups: list[Group]
    audits: dict[str, Audit] = field(default_factory=dict)
    missing: list[tuple[str, str]] = field(default_factory=list)
    localised: dict[str, "Localisation"] = field(default_factory=dict)
    cleaning: dict[str, PairAudit] = field(default_factory=dict)
    unconverged: dict[str, list[str]] = field(default_factory=dict)

    def runs(self) -> list[RunResult]:
        return [run for group in self.groups for run in group.runs]

    def methods(self) -> list[RunResult]:
        return [run for group in self.groups for run in group.methods]

    def with_curves(self) -> list[TrainedRun]:
        return [run for group in self.groups for run in group.with_curves]

    def localisation_of(self, run: RunResult) -> dict | None:
        """The metrics of localize for a run; for a run with seeds, the mean over its models."""
        names = [model.name for model in run.repetitions or (run,)]
        documents = [self.localised[name].metrics for name in names if name in self.localised]
        return mean(documents) if documents else None


@dataclass(frozen=True)
class Localisation:
    """metrics, mentions: of localize, by phrase_id. catalogue: of the uncropped pictures."""

    run: str
    metrics: dict
    mentions: pd.DataFrame
    catalogue: Catalogue

    @property
    def recall(self) -> float:
        return self.metrics["all"]["r@1"]

    def comparable(self, right: "Localisation") -> bool:
        """Do both have the same mentions of the same pictures?"""
        left, mentions = (run.mentions.index.sort_values() for run in (self, right))
        return self.catalogue.folder == right.catalogue.folder and left.equals(mentions)


def repeated(name: str, models: Sequence[RunResult], params: Params) -> RunResult:
    """The mean result of the models of one run with seeds, under the criteria that all of them
    have. Raises InputError when they share no criterion."""
    first = models[0]
    common = [criterion for criterion in first.evaluations if all(criterion in run.evaluations for run in models)]
    if not common:
        raise InputError(f"run {name}: its seeds have no criterion in common; run `vse-pipe evaluate --run {name}`")
    evaluations = {key: _over_seeds(name, [run.evaluations[key] for run in models], params) for key in common}
    return RunResult(name, first.params, None, evaluations, row=first.row, repetitions=tuple(models), moved=first.moved)


def _over_seeds(name: str, evaluations: list[Evaluation], params: Params) -> Evaluation:
    """The tables are those of the first seed."""
    documents = [result.metrics for result in evaluations]
    intervals: dict = {}
    if params.evaluate.resamples > 1:
        figures = [Figures.from_tables(result.ranks, result.occurrence) for result in evaluations]
        for address, spread in spreads(figures, params.evaluate.resamples, params.seed).items():
            nest(intervals, address, within(address, spread.interval()))
    sums = {name: [document[name] for document in documents] for name in SUMS}
    deviations = {
        name: statistics.stdev(values) for name, values in sums.items() if len(values) > 1 and None not in values
    }
    metrics = mean(documents) | {"intervals": intervals}
    return replace(evaluations[0], run=name, metrics=metrics, deviations=deviations)


def mean(documents: Sequence[dict]) -> dict:
    """The first document with the mean of every number that all documents have; None where one has
    none. Counts that agree stay integers."""
    merged = dict(documents[0])
    for key in documents[0]:
        values = [document[key] for document in documents if key in document]
        types = set(map(type, values))
        if len(values) < len(documents) or not types <= {int, float, dict, type(None)}:
            continue
        if types == {dict}:
            merged[key] = mean(values)
        elif None in values:
            merged[key] = None
        elif dict not in types and len(set(values)) > 1:
            merged[key] = statistics.fmean(values)
    return merged
