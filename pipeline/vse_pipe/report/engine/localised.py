"""The localisations that params names under report.localized, read and checked; never what happens to lie on disk."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from vse_pipe.artifacts import captions, images, joins, localisation, names
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.repetitions import entry
from vse_pipe.report.engine.results import DatasetIndex

_NEEDED = ("model_sha256", "data", "proposals", "split", "threshold", "all", "types")


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

    def comparable(self, other: "Localisation") -> bool:
        """Is ``other`` about the same mentions of the same pictures?"""
        return self.catalogue is other.catalogue and self.mentions.index.sort_values().equals(
            other.mentions.index.sort_values()
        )


def read(params: Params) -> dict[str, Localisation]:
    """By run, in the order of report.localized. Raises InputError for what is missing or measured otherwise than params.yaml now
    asks for, IntegrityError for what was made with another model or is of other phrases, boxes or pictures."""
    catalogues: dict[Path, DatasetIndex] = {}
    return {run: _localisation(params, run, catalogues) for run in params.report.localized}


def _localisation(params: Params, run: str, catalogues: dict[Path, DatasetIndex]) -> Localisation:
    folder = paths.localized(run)
    metrics = localisation.read_metrics(folder)
    asked = params.localize.model_dump()
    problem = next((f"{name} is missing" for name in _NEEDED if name not in metrics), "") or next(
        (f"{name} is {metrics.get(name)!r}, params.yaml localize.{name} is {value!r}" for name, value in asked.items() if metrics.get(name) != value),
        "",
    )  # fmt: skip
    where, mend = (
        folder / localisation.METRICS,
        joins.repair_advice(f"localize@{entry(run)}", f"vse-pipe localize --run {run}"),
    )
    if problem:
        raise InputError(f"{where}: {problem}; {mend}")
    joins.require_model(where, metrics["model_sha256"], paths.trained(run), run, mend)
    prepared = paths.prepared(params.runs[run].dataset)
    held = localisation.data(prepared).items()
    if changed := [name for name, digest in held if metrics["data"].get(name) != digest]:
        raise IntegrityError(f"{where}: made from another {changed[0]} than {prepared} now holds; {mend}")
    ranks = localisation.read_ranks(folder)
    source, origin = _named(localisation.source(ranks)), localisation.origin(where, metrics, mend)
    joins.require(source, origin)
    if source not in catalogues:
        catalogues[source] = catalogue(source, origin)
    return Localisation(run, metrics, ranks.to_pandas().set_index("phrase_id"), catalogues[source])


def _named(folder: Path) -> Path:
    """As ``paths.prepared`` has it, where it is that however it was written."""
    own = paths.prepared(folder.name)
    return own if own.resolve() == folder.resolve() else folder.resolve()


def catalogue(folder: Path, *origins: joins.Origin) -> DatasetIndex:
    """Of a prepared data set. origins: of what is shown with its pictures and captions. Raises as ``joins.compared``."""
    pictures = joins.images_of(folder, *origins)
    texts = joins.captions_of(folder, *origins).to_pandas().set_index("caption_id")
    digests = {name: sha256(folder / name) for name in (images.NAME, captions.NAME)}
    table = pictures.to_pandas().set_index("image_id")
    return DatasetIndex(folder, table, texts, images.root(pictures), digests, names.read(folder))
