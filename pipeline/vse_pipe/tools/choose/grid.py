"""What is tried of each run: a YAML file of values by run and address, as many settings for each."""

import hashlib
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse_pipe.core.errors import MissingResource, ParamsError, UsageError, unknown
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import RUN_FAMILIES

_TRAIN = "train"


@dataclass(frozen=True)
class Candidate:
    """Of one run. values: by address, ``{"loss.margin": 0.1, "train.lr": 5e-4}``."""

    run: str
    values: dict[str, Any]

    @property
    def out(self) -> Path:
        """Its folder below data/choose/<run>/, named after the values, so that a grid may grow or be sorted otherwise."""
        digest = hashlib.sha256(json.dumps(self.values, sort_keys=True).encode()).hexdigest()
        return paths.DATA / "choose" / self.run / digest[:12]

    @property
    def overrides(self) -> list[str]:
        """As of --set: where params.yaml has these values of the run."""
        places = [key if key.startswith(f"{_TRAIN}.") else f"options.{key}" for key in self.values]
        return [
            f"runs.{self.run}.{place}={json.dumps(value)}"
            for place, value in zip(places, self.values.values(), strict=True)
        ]

    def __str__(self) -> str:
        return " ".join(f"{key}={json.dumps(value)}" for key, value in self.values.items())


def read(path: Path, params: Params) -> dict[str, list[Candidate]]:
    """Every combination of the values of each run, by run, in the order of the file.

    Raises MissingResource without the file, ParamsError for what is no list of values under an address of a run, and
    UsageError unless all runs have the same number of settings: the best of more is better by chance alone.
    """
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    found = {run: _settings(path, run, values, params) for run, values in read_document(path).items()}
    if not found:
        raise ParamsError([f"{path.name}: expected runs, and of each what is tried by address"])
    counts = {run: len(settings) for run, settings in found.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{run} {count}" for run, count in counts.items())
        raise UsageError(f"{path.name}: every run needs as many settings as the others, these have {told}")
    return found


def _settings(path: Path, run: str, values: object, params: Params) -> list[Candidate]:
    known = params.named(params.runs)
    if run not in known:
        raise ParamsError([f"{path.name}: {unknown('run', str(run), known)}"])
    if not isinstance(values, dict) or not values:
        raise ParamsError([f"{path.name} {run}: expected values by address, such as loss.margin: [0.1, 0.2]"])
    for address, tried in values.items():
        entry, _, key = str(address).partition(".")
        if entry not in (*RUN_FAMILIES, _TRAIN) or not key or "=" in key:
            told = unknown("address", str(address), [f"{one}.*" for one in (*RUN_FAMILIES, _TRAIN)])
            raise ParamsError([f"{path.name} {run}: {told}"])
        if not isinstance(tried, list) or not tried:
            raise ParamsError([f"{path.name} {run}.{address}: expected a list of values, got {tried!r}"])
        try:
            different = {json.dumps(value) for value in tried}
        except TypeError as error:
            raise ParamsError([f"{path.name} {run}.{address}: expected numbers, words or lists; {error}"]) from error
        if len(different) < len(tried):
            raise ParamsError([f"{path.name} {run}.{address}: a value stands twice in {tried!r}"])
    return [Candidate(run, dict(zip(values, one, strict=True))) for one in itertools.product(*values.values())]
