"""Programs that show trainings are told of one: its parameters at the start, every epoch's figures, and how it ended.

None of it enters a model's bytes or fingerprint. A tracker that cannot start stops the command before anything is trained;
one that fails later, or does not start where a killed training goes on, is said once and left out: its page is worth less.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from vse_pipe.core.console import warn
from vse_pipe.core.errors import MissingResource, PipelineError
from vse_pipe.core.whole import partial
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Run
from vse_pipe.project.registry import RUN_FAMILIES, TRACKERS
from vse_pipe.train.engine import checkpoint

Rows = Sequence[Mapping[str, float]]
Follow = Callable[[Rows], None]


@runtime_checkable
class Tracker(Protocol):
    """One training in one program."""

    def follow(self, rows: Rows) -> None:
        """rows: as of history.csv, of all epochs so far: first what an earlier call has trained, then with each epoch one
        more."""

    def close(self, finished: bool) -> None:
        """finished: False where the training ends before its time."""


@dataclass(frozen=True)
class Training:
    """What a tracker starts with. mark: the fingerprint: a training that goes on has the same; parameters: texts, numbers
    and truth values by name; folder: for everything that is kept on this machine; place: of this training in it; out: of the model."""

    name: str
    mark: str
    parameters: dict[str, str | int | float | bool]
    folder: Path
    place: Path
    out: Path = Path()

    @property
    def going_on(self) -> bool:
        """Has an earlier call trained some of it?"""
        return checkpoint.fingerprint(partial(self.out)) == self.mark

    @classmethod
    def of(cls, run: Run, name: str, mark: str, out: Path) -> "Training":
        """out: the folder of the model."""
        base = next((one for one in (paths.trained(""), paths.DATA) if out.is_relative_to(one)), out.parent)
        return cls(name, mark, _parameters(run), paths.tracked(), out.relative_to(base), out)


def _parameters(run: Run) -> dict[str, str | int | float | bool]:
    found: dict = {key: getattr(run, key) for key in ("dataset", "features", "texts", "noise", "seed")}
    for key in RUN_FAMILIES:
        member = getattr(run, key)
        found |= {key: member.name} | {
            f"{key}.{name}": one for name, one in member.params.model_dump(mode="json").items()
        }
    found |= {f"train.{name}": one for name, one in run.train.model_dump(mode="json").items()}
    return {key: one if isinstance(one, str | int | float | bool) else json.dumps(one) for key, one in found.items()}


@contextlib.contextmanager
def following(trackers: Mapping[str, Member], training: Training) -> Iterator[Follow]:
    """Yield what is to be called with all rows so far, once before the first epoch and then after each.

    Raises MissingResource where a tracker's package is not installed, PipelineError where one does not start at the beginning
    of a training.
    """
    going: dict[str, Tracker] = {}
    finished = False
    try:
        for name, member in trackers.items():
            if (one := _started(name, member, training)) is not None:
                going[name] = one
        yield lambda rows: _each(going, training.name, lambda one: one.follow(rows))
        finished = True
    finally:
        _each(going, training.name, lambda one: one.close(finished))


def _started(name: str, member: Member, training: Training) -> Tracker | None:
    try:
        return TRACKERS.load(name).start(training, member.params)
    except MissingResource:
        raise
    except Exception as error:
        if training.going_on:
            told = f"train {training.name}: tracker {name} does not start ({_said(error)}) and is left out"
            warn(f"{told}; the training goes on where it was")
            return None
        raise PipelineError(
            f"train {training.name}: tracker {name} does not start ({_said(error)}); mend trackers.{name} in params.yaml or "
            "take it out"
        ) from error


def _each(going: dict[str, Tracker], run: str, do: Callable[[Tracker], None]) -> None:
    for name, tracker in list(going.items()):
        try:
            do(tracker)
        except Exception as error:  # whatever a program of others raises: the training goes on
            del going[name]
            warn(
                f"train {run}: tracker {name} failed and is left out from here on ({_said(error)}); the training goes on"
            )


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
