"""The localisations that params names under report.localized, read and checked; never what happens to lie on disk."""

from dataclasses import dataclass

import pandas as pd

from pipeline.artifacts import captions, images, localisation
from pipeline.core.errors import InputError
from pipeline.core.files import sha256
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.report.engine.audits import model_of
from pipeline.report.engine.results import DatasetIndex

_NEEDED = ("model_sha256", "split", "threshold", "all", "types")


@dataclass(frozen=True)
class Localisation:
    """metrics: as localize wrote it; mentions: its table, indexed by phrase_id; catalogue: of the whole pictures."""

    run: str
    metrics: dict
    mentions: pd.DataFrame
    catalogue: DatasetIndex

    @property
    def recall(self) -> float:
        return self.metrics["all"]["r@1"]


def read(params: Params) -> dict[str, Localisation]:
    """By run, in the order of report.localized. Raises InputError for what is missing, made with another model, or measured
    otherwise than params.yaml now asks for."""
    catalogues: dict[str, DatasetIndex] = {}
    return {run: _localisation(params, run, catalogues) for run in params.report.localized}


def _localisation(params: Params, run: str, catalogues: dict[str, DatasetIndex]) -> Localisation:
    folder = paths.localized(run)
    metrics = localisation.read_metrics(folder)
    asked = params.localize.model_dump()
    problem = next((f"{name} is missing" for name in _NEEDED if name not in metrics), "") or next(
        (f"{name} is {metrics.get(name)!r}, params.yaml localize.{name} is {value!r}" for name, value in asked.items() if metrics.get(name) != value),
        "",
    )  # fmt: skip
    if not problem and metrics["model_sha256"] != model_of(run):
        problem = f"it is of another model than {paths.trained(run)} now holds"
    if problem:
        raise InputError(f"{folder / localisation.METRICS}: {problem}; run `vse-pipe localize --run {run}` again")
    ranks = localisation.read_ranks(folder)
    dataset = localisation.source(ranks).name
    if dataset not in catalogues:
        catalogues[dataset] = catalogue(dataset)
    return Localisation(run, metrics, ranks.to_pandas().set_index("phrase_id"), catalogues[dataset])


def catalogue(dataset: str) -> DatasetIndex:
    folder = paths.prepared(dataset)
    pictures = images.read(folder)
    texts = captions.read(folder).to_pandas().set_index("caption_id")
    digests = {name: sha256(folder / name) for name in (images.NAME, captions.NAME)}
    table = pictures.to_pandas().set_index("image_id")
    return DatasetIndex(dataset, table, texts, images.root(pictures), digests)
