"""What a check finds, what it means for the exit status, and how an artefact is compared with its input."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import IntegrityError, PipelineError
from vse_pipe.core.files import sha256

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


def digest(address: Path, what: str, made_from: object, current: object, advice: str) -> list[Problem]:
    """An artefact names the digest of its input. current: the digest that the input has now, or its file. Nothing is compared where
    the artefact does not say, or where the input is not there."""
    if isinstance(current, Path):
        current = sha256(current) if current.is_file() else None
    if made_from is None or current is None or made_from == current:
        return []
    return [Problem(DIGEST, str(address), f"made from other {what} than there are now", advice)]
