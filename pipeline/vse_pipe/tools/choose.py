"""What is tried of each run: a YAML file of values by run and address, as many settings for each."""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vse_pipe.artifacts import model_files
from vse_pipe.core.console import warn
from vse_pipe.core.errors import DeadRun, MissingResource, ParamsError, UsageError, unknown
from vse_pipe.project import paths, step
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import Check, load
from vse_pipe.project.params.typed import Params
from vse_pipe.project.paths import PARAMS
from vse_pipe.project.registry import RUN_FAMILIES, SCHEMES

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


@dataclass(frozen=True)
class Tried:
    """A setting that was trained: rsum of its best epoch on val, that epoch, whether it converged, and seconds spent. A setting
    whose training was dead has none of these, and ``dead`` says why."""

    setting: Candidate
    val_rsum: float
    epoch: int
    converged: bool
    seconds: float | None
    dead: str = ""

    @classmethod
    def of(cls, setting: Candidate) -> "Tried":
        config = model_files.read_config(setting.out, setting.run)
        best, ended = config["best"], config["ended"]
        return cls(setting, best["val_rsum"], best["epoch"], ended["converged"], step.timing_of(setting.out))

    @property
    def figures(self) -> str:
        """For the list that the command prints."""
        if self.dead:
            return "dead"
        spent = "" if self.seconds is None else f", {self.seconds:.0f} s"
        state = "" if self.converged else ", not converged"
        return f"val rsum {self.val_rsum:.1f} (epoch {self.epoch}{state}{spent})"

    def as_json(self) -> dict:
        values = {"run": self.setting.run, "values": self.setting.values, "out": str(self.setting.out)}
        if self.dead:
            return values | {"dead": self.dead}
        figures = {"val_rsum": self.val_rsum, "epoch": self.epoch, "converged": self.converged, "seconds": self.seconds}
        return values | figures


def params_of(setting: Candidate, overrides: list[str], further: Sequence[Check]) -> Params:
    """params.yaml with the setting in it, its run with the seed of the file. Raises ParamsError where a value does not fit,
    UsageError for a run that trains nothing."""
    found = load(PARAMS, [*overrides, *setting.overrides], further=further)
    one = replace(found.runs[found.models(setting.run)[0]], seed=found.seed)
    if not SCHEMES.traits(one.scheme.name).trains:
        raise UsageError(
            f"run '{setting.run}' trains nothing (scheme {one.scheme.name}), so there is nothing to choose"
        )
    return replace(found, runs={**found.runs, setting.run: one})


def tried(settings: list[Candidate], params: Mapping[Path, Params], device: str) -> list[Tried]:
    """Train the settings, or find them trained. A dead one does not end the others. Raises DeadRun where all are dead.

    params: of each by its folder, as of ``params_of``."""
    from vse_pipe.train.stage import flush_denormals, train  # torch

    flush_denormals()
    found = []
    for one in settings:
        try:
            train(params[one.out], one.run, device, one.out)
            found.append(Tried.of(one))
        except DeadRun as error:
            warn(str(error))
            found.append(Tried(one, -1.0, 0, False, None, str(error)))
    if all(one.dead for one in found):
        raise DeadRun(f"all settings of run '{settings[0].run}' are dead; the last: {found[-1].dead}")
    return found


def best(found: list[Tried]) -> Tried:
    """The first of those with the highest rsum."""
    return max(found, key=lambda one: one.val_rsum)


def write(chosen: list[Candidate], seeds: int, further: Sequence[Check]) -> None:
    """Put the values into params.yaml, and that each run is repeated with seeds 1, 2, ... Comments stay."""
    changes = [change for setting in chosen for change in setting.overrides]
    overlay.edit(PARAMS, changes + _repeated([setting.run for setting in chosen], seeds), further)


def check(runs: Sequence[str], seeds: int, overrides: list[str], further: Sequence[Check]) -> None:
    """Raises ParamsError where the runs cannot have seeds, such as those that ``first`` of an ensemble names, before hours go
    into a choice that cannot be written down."""
    load(PARAMS, [*overrides, *_repeated(runs, seeds)], further=further)


def _repeated(runs: Sequence[str], seeds: int) -> list[str]:
    return [f"runs.{run}.seeds={list(range(1, seeds + 1))}" for run in runs] if seeds else []
