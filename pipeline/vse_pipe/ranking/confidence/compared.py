"""Evaluations that were read to be compared: of one model, or of a method with a model for each of its seeds."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import InputError


@dataclass(frozen=True)
class Compared:
    """An evaluation of one model. name: what to call it; metrics: metrics.json; ranks, occurrence: the tables."""

    name: str
    metrics: dict
    ranks: pa.Table
    occurrence: pa.Table

    @classmethod
    def read(cls, name: str, folder: Path) -> "Compared":
        """Raises InputError or IntegrityError for files that are missing, of an older version or damaged."""
        ranks, occurrence = evaluation.read_ranks(folder), evaluation.read_occurrence(folder)
        if "image_id" not in ranks.column_names:
            raise InputError(f"{folder / evaluation.RANKS}: column 'image_id' (int64) is missing; evaluate again")
        return cls(name, evaluation.read_metrics(folder), ranks, occurrence)


@dataclass(frozen=True)
class Method:
    """models: by seed, in the order of params.yaml; of a run without seeds its one model, by the empty name."""

    name: str
    models: dict[str, Compared]

    @classmethod
    def of(cls, one: Compared) -> "Method":
        return cls(one.name, {"": one})

    @property
    def metrics(self) -> dict:
        """Of the first model: what is said there of criterion, bank and protocol holds for all."""
        return next(iter(self.models.values())).metrics

    def __len__(self) -> int:
        return len(self.models)
