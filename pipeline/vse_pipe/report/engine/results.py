"""What the report is about: data sets, their runs, and each run under each criterion."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.names import TextIds
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.report.engine.audits import Audit

if TYPE_CHECKING:  # which reads a data set as what is defined here
    from vse_pipe.report.engine.localised import Localisation

BASELINE = "nns"
_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Evaluation:
    """One run under one criterion. metrics: as evaluate wrote it, checked; the tables as in artifacts.evaluation."""

    run: str
    inference: str
    metrics: dict
    ranks: pa.Table
    occurrence: pa.Table
    relaxation: pa.Table | None = None

    @property
    def rsum(self) -> float:
        return self.metrics["rsum"]

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of rsum; see ``interval_of``."""
        return self.interval_of(("rsum",))

    def interval_of(self, path: tuple[str, ...]) -> tuple[float, float] | None:
        """95%, from a bootstrap over images; None where evaluate drew no resamples, or has none of that figure. path: keys
        into metrics.json."""
        found = self.metrics.get("intervals", {})
        for key in path:
            found = found.get(key, {})
        return tuple(found) if found else None

    @property
    def transductive(self) -> bool:
        """Does a query's result depend on the other queries it is measured with?"""
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
        """query_ids in one direction, as they lie in the file, and what each retrieved, best first."""
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
    """history: one row per epoch; evaluations: in the order of grid.inferences.

    An ensemble has no parameters and no history of its own, but ``parts``: the names of its runs. row: of a paper, if named.
    config: its config.json. repetitions: of a run with seeds its models, of
    whose evaluations these are the means. moved: a run on a data set that it was not trained on; params: of the run.
    """

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
        """Of the repetitions."""
        return [one.params.seed for one in self.repetitions if one.params is not None]

    @property
    def data(self) -> str | None:
        """Digest of what was ranked; None where the evaluations do not say, or are of different data."""
        found = {one.metrics.get("data") for one in self.evaluations.values()}
        return found.pop() if len(found) == 1 else None

    @property
    def best(self) -> Evaluation:
        return max(self.evaluations.values(), key=lambda one: one.rsum)

    @property
    def baseline(self) -> Evaluation:
        """Plain nearest neighbours where the grid has them, else its first criterion."""
        return self.evaluations.get(BASELINE) or next(iter(self.evaluations.values()))

    @property
    def contrast(self) -> Evaluation:
        """The criterion to set beside the baseline: the best that ranks, else the best, else the baseline itself."""
        others = [one for one in self.evaluations.values() if one is not self.baseline]
        ranking = [one for one in others if not one.matching]
        return max(ranking or others or [self.baseline], key=lambda one: one.rsum)


@dataclass(frozen=True)
class TrainedRun(RunResult):
    """One run and no ensemble: it has parameters and a history."""

    params: Run
    history: pd.DataFrame

    def member(self, kind: str) -> str:
        """The name of its loss, scheme, ... when it was trained."""
        made = self.config.get(kind)
        return made["name"] if made else getattr(self.params, kind).name

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of what it was trained on and of its weights, by name."""
        of_files = self.config.get("sha256")
        digests = {name: self.config.get(f"{name}_sha256") for name in ("features", "texts", "pairs")}
        digests["weights"] = of_files.get(_WEIGHTS) if isinstance(of_files, dict) else None
        return {name: digest for name, digest in digests.items() if isinstance(digest, str)}


@dataclass(frozen=True)
class DatasetIndex:
    """A data set's pictures and texts. folder: where it lies; images: indexed by image_id; captions: indexed by caption_id; root:
    of the files; digests: SHA-256 of its tables, by file name; names: of ids that are text."""

    folder: Path
    images: pd.DataFrame
    captions: pd.DataFrame
    root: Path
    digests: dict[str, str] = field(default_factory=dict)
    names: TextIds | None = None

    @property
    def name(self) -> str:
        """Its folder for one of another project, which may have a name of this one's."""
        return self.folder.name if self.folder == paths.prepared(self.folder.name) else str(self.folder)

    @cached_property
    def captions_of(self) -> dict[int, list[int]]:
        """caption_ids of each image, in the data set's order."""
        return {image: list(group.index) for image, group in self.captions.groupby("image_id", sort=False)}

    def known(self, ids: list[int], direction: str, side: str) -> list[int]:
        """``ids`` if the data set has them all. side: ``queries`` or ``items``. Raises InputError."""
        pictures = (direction == "image_to_text") == (side == "queries")
        table, key = (self.images, "image_id") if pictures else (self.captions, "caption_id")
        strange = [number for number in ids if number not in table.index]
        if strange:
            advice = "run `vse-pipe evaluate` again"
            raise InputError(f"{self.folder}: no {key} {strange[0]}, but the evaluation names it; {advice}")
        return ids


@dataclass(frozen=True)
class Group:
    """The runs of one data set, then their ensembles, then runs that were trained elsewhere: only these can be compared with
    each other.

    methods: a run with seeds is one of them; runs: a model each, as ``max/1``.
    """

    catalogue: DatasetIndex
    methods: list[RunResult]

    @property
    def runs(self) -> list[RunResult]:
        return [one for method in self.methods for one in method.repetitions or (method,)]

    @property
    def shown(self) -> list[RunResult]:
        """One model a method, where single queries and items are shown: of seeds the first."""
        return [method.repetitions[0] if method.repetitions else method for method in self.methods]

    @property
    def best_run(self) -> RunResult:
        """Of ``shown``, the model of the best method."""
        best = self.best_method
        return best.repetitions[0] if best.repetitions else best

    @property
    def best_method(self) -> RunResult:
        return max(self.methods, key=lambda run: run.best.rsum)

    @property
    def plain_method(self) -> RunResult:
        """That with the largest rsum under plain nearest neighbours; under its first criterion where none has them."""
        plain = [method for method in self.methods if BASELINE in method.evaluations]
        return max(plain or self.methods, key=lambda run: run.baseline.rsum)

    @property
    def trained(self) -> list[TrainedRun]:
        """Without the ensembles and the runs that were trained elsewhere."""
        return [run for run in self.runs if isinstance(run, TrainedRun)]

    @property
    def with_curves(self) -> list[TrainedRun]:
        """Those of them that were trained at all."""
        return [run for run in self.trained if len(run.history)]

    def evaluations(self) -> list[Evaluation]:
        """Of the methods."""
        return [one for run in self.methods for one in run.evaluations.values()]


@dataclass(frozen=True)
class Results:
    """audits, localised: by run, those that params names; missing: what params.yaml names beside these and why it is not there."""

    params: Params
    groups: list[Group]
    audits: dict[str, Audit] = field(default_factory=dict)
    missing: list[tuple[str, str]] = field(default_factory=list)
    localised: dict[str, "Localisation"] = field(default_factory=dict)

    def runs(self) -> list[RunResult]:
        return [run for group in self.groups for run in group.runs]

    def methods(self) -> list[RunResult]:
        return [run for group in self.groups for run in group.methods]

    def with_curves(self) -> list[TrainedRun]:
        """Without the ensembles and the runs that train nothing."""
        return [run for group in self.groups for run in group.with_curves]
