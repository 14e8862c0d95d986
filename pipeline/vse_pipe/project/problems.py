"""What a check finds, and what it means for the exit status."""

from dataclasses import dataclass

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


def of_error(error: PipelineError) -> list[Problem]:
    """An error of a reader: a problem for each line of its message."""
    problems = []
    for line in str(error).splitlines():
        address, separator, what = line.partition(": ")
        if not separator:
            # "PATH does not exist; ...": the readers' other form.
            address, _, what = line.partition(" ")
        problems.append(Problem(DIGEST if isinstance(error, IntegrityError) else ARTEFACT, address, what))
    return problems
