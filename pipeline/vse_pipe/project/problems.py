"""What a check finds, what it means for the exit status, and the comparisons that several kinds of artefacts share."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vse_pipe.core.errors import IntegrityError, PipelineError

PARAMS, ARTEFACT, DIGEST, NOTE = 2, 3, 5, 0


@dataclass(frozen=True)
class Problem:
    """status: of ``vse_pipe.core.errors``: 2 params.yaml or dvc.yaml, 3 an artefact that cannot be used, 5 a digest that is not
    what another artefact promises; 0: worth saying, nothing is wrong. address: file, folder or key; advice: what to do."""

    status: int
    address: str
    what: str
    advice: str = ""

    @property
    def line(self) -> str:
        return f"{self.address}: {self.what}" + (f"; {self.advice}" if self.advice else "")

    def as_json(self) -> dict:
        return {"status": self.status, "address": self.address, "problem": self.what, "advice": self.advice}


def exit_status(problems: list[Problem]) -> int:
    """The lowest status found, 0 without any: while params.yaml is wrong nothing below it means much, and what cannot be
    read has no digests to compare."""
    return min((problem.status for problem in problems if problem.status != NOTE), default=0)


@contextlib.contextmanager
def collected(found: list[Problem]) -> Iterator[None]:
    """Errors of the readers become problems, one for each line of their message."""
    try:
        yield
    except PipelineError as error:
        status = DIGEST if isinstance(error, IntegrityError) else ARTEFACT
        for line in str(error).splitlines():
            address, separator, what = line.partition(": ")
            if not separator:
                # "PATH does not exist; ...": the readers' other form.
                address, _, what = line.partition(" ")
            found.append(Problem(status, address, what))


def settings(address: str, made_with: object, asked_for: dict, where: str, advice: str) -> list[Problem]:
    """Values that an artefact was made with against those of params.yaml, for the keys that both have."""
    if not isinstance(made_with, dict):
        return [Problem(ARTEFACT, address, "does not say what it was made with", advice)]
    return [
        Problem(DIGEST, address, f"made with {key} {made_with[key]!r}, params.yaml {where} says {value!r}", advice)
        for key, value in asked_for.items()
        if key in made_with and made_with[key] != value
    ]


def ids(address: Path, kind: str, found: Iterable, expected: Iterable, other: Path, advice: str) -> list[Problem]:
    """Ids that ``found`` has and ``expected`` lacks: the artefact speaks of things its source does not have."""
    strange = np.setdiff1d(np.asarray(found), np.asarray(expected))
    if not len(strange):
        return []
    what = f"{len(strange)} ids are not in {other}, the first is {kind} {strange[0]}"
    return [Problem(ARTEFACT, str(address), what, advice)]


def digest(address: Path, what: str, made_from: object, there: object, advice: str) -> list[Problem]:
    """An artefact names the digest of its input. None on either side: not recorded, or not there."""
    if made_from is None or there is None or made_from == there:
        return []
    return [Problem(DIGEST, str(address), f"made from other {what} than there are now", advice)]
