"""choose: train every setting of a grid, a YAML file of values by run and address, and write the
best ones into params.yaml."""

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
from vse_pipe.project import paths
from vse_pipe.project.params import overlay
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import Check, load
from vse_pipe.project.params.typed import Params
from vse_pipe.project.paths import PARAMS
from vse_pipe.project.registry import SCHEMES

_TRAIN = "train"


@dataclass(frozen=True)
class Candidate:
    """A setting of one run. values: by address, ``{"loss.margin": 0.1, "train.lr": 5e-4}``."""

    run: str
    values: dict[str, Any]

    @property
    def out(self) -> Path:
        """Its folder below data/choose/<run>/. The name depends on the values alone, so a grid can
        grow or change its order."""
        digest = hashlib.sha256(json.dumps(self.values, sort_keys=True, default=str).encode()).hexdigest()
        return paths.DATA / "choose" / self.run / digest[:12]

    @property
    def overrides(self) -> list[str]:
        """The values in the form of --set."""
        return [
            f"runs.{self.run}.{'' if key.startswith(f'{_TRAIN}.') else 'options.'}{key}={json.dumps(value, default=str)}"
            for key, value in self.values.items()
        ]

    def __str__(self) -> str:
        return " ".join(f"{key}={json.dumps(value)}" for key, value in self.values.items())


def read(path: Path, params: Params) -> dict[str, list[Candidate]]:
    """All combinations of the values of each run, by run, in the order of the file.

    Raises MissingResource without the file, ParamsError for content other than lists of values by
    address of a run, and UsageError unless all runs have the same number of settings: the best of
    more settings is better by chance.
    """
    if not path.is_file():
        raise MissingResource(f"{path}: no such file")
    grid = {run: _settings(path, run, values, params) for run, values in read_document(path).items()}
    if not grid:
        raise ParamsError(f"{path.name}: expected runs, and of each what is tried by address")
    counts = {run: len(settings) for run, settings in grid.items()}
    if len(set(counts.values())) > 1:
        message = ", ".join(f"{run} {count}" for run, count in counts.items())
        raise UsageError(f"{path.name}: every run needs as many settings as the others, these have {message}")
    return grid


def _settings(path: Path, run: str, values: object, params: Params) -> list[Candidate]:
    runs = params.named(params.runs)
    if run not in runs:
        raise ParamsError(f"{path.name}: {unknown('run', str(run), runs)}")
    if not isinstance(values, dict) or not values or not all(isinstance(row, list) and row for row in values.values()):
        raise ParamsError(f"{path.name} {run}: expected lists of values by address, such as loss.margin: [0.1, 0.2]")
    combinations = itertools.product(*values.values())
    return [Candidate(run, dict(zip(values, combination, strict=True))) for combination in combinations]


@dataclass(frozen=True)
class Training:
    """A trained setting: rsum of its best epoch on val, that epoch, why it has not converged, and
    seconds.

    If the training was dead, ``dead`` holds the reason and the other values have no meaning.
    """

    setting: Candidate
    val_rsum: float
    epoch: int
    unconverged: str | None
    seconds: float | None
    dead: str = ""

    @classmethod
    def read(cls, setting: Candidate) -> "Training":
        config = model_files.read_config(setting.out)
        best, reason = config["best"], model_files.unconverged(config)
        return cls(setting, best["val_rsum"], best["epoch"], reason, paths.recorded_seconds(setting.out))

    @property
    def figures(self) -> str:
        """The figures in the list that the command prints."""
        if self.dead:
            return "dead"
        spent = "" if self.seconds is None else f", {self.seconds:.0f} s"
        state = ", not converged" if self.unconverged else ""
        return f"val rsum {self.val_rsum:.1f} (epoch {self.epoch}{state}{spent})"

    def as_json(self) -> dict:
        values = {"run": self.setting.run, "values": self.setting.values, "out": str(self.setting.out)}
        if self.dead:
            return values | {"dead": self.dead}
        state = {"converged": self.unconverged is None, "unconverged": self.unconverged}
        return values | {"val_rsum": self.val_rsum, "epoch": self.epoch, **state, "seconds": self.seconds}


def params_of(setting: Candidate, overrides: list[str], further: Sequence[Check]) -> Params:
    """Params with the setting; its run has the seed of params.yaml. Raises ParamsError for an unfit
    value, UsageError for a run that trains nothing."""
    params = load(PARAMS, [*overrides, *setting.overrides], further=further)
    run = replace(params.runs[params.models(setting.run)[0]], seed=params.seed)
    if not SCHEMES.traits(run.scheme.name).trains:
        raise UsageError(
            f"run '{setting.run}' trains nothing (scheme {run.scheme.name}), so there is nothing to choose"
        )
    return replace(params, runs={**params.runs, setting.run: run})


def train_all(settings: list[Candidate], params: Mapping[Path, Params], device: str) -> list[Training]:
    """Trials of the settings; finished trainings are not repeated. Raises DeadRun only if all
    settings are dead.

    params: result of ``params_of`` by the folder of the setting.
    """
    from vse_pipe.train.stage import train  # torch

    trials = []
    for setting in settings:
        try:
            train(params[setting.out], setting.run, device, setting.out)
            trials.append(Training.read(setting))
        except DeadRun as error:
            warn(str(error))
            trials.append(Training(setting, -1.0, 0, None, None, str(error)))
    if all(trial.dead for trial in trials):
        raise DeadRun(f"all settings of run '{settings[0].run}' are dead; the last: {trials[-1].dead}")
    return trials


def best(trials: list[Training]) -> Training:
    """The first trial with the highest rsum."""
    return max(trials, key=lambda trial: trial.val_rsum)


def write(chosen: list[Candidate], seeds: int, further: Sequence[Check]) -> None:
    """Write the values into params.yaml and repeat each run with seeds 1, 2, ... Comments stay."""
    changes = [change for setting in chosen for change in setting.overrides]
    overlay.edit(PARAMS, changes + _repeated([setting.run for setting in chosen], seeds), further)


def check(runs: Sequence[str], seeds: int, overrides: list[str], further: Sequence[Check]) -> None:
    """Raises ParamsError before hours of training if the runs cannot have seeds, such as the runs
    that ``first`` of an ensemble names."""
    load(PARAMS, [*overrides, *_repeated(runs, seeds)], further=further)


def _repeated(runs: Sequence[str], seeds: int) -> list[str]:
    return [f"runs.{run}.seeds={list(range(1, seeds + 1))}" for run in runs] if seeds else []
