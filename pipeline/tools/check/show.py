"""What a check found, for people and for programs."""

from pipeline.core.console import document, line, say
from pipeline.project.problems import exit_status
from pipeline.tools.check.stage import Checked

_WORDS = {0: "note", 2: "params", 3: "artefact", 5: "digest"}


def show(checked: Checked, as_json: bool) -> int:
    """Print a line a problem on stdout; returns the exit status."""
    status = exit_status(checked.problems)
    if as_json:
        document(
            {
                "ok": status == 0,
                "status": status,
                "artefacts": checked.artefacts,
                "named": checked.named,
                "problems": [problem.as_json() for problem in checked.problems],
            }
        )
        return status
    for problem in checked.problems:
        line(f"{_WORDS[problem.status]:9}{problem.line}")
    wrong = sum(problem.status != 0 for problem in checked.problems)
    said = "no problems" if not wrong else f"{wrong} problem{'s' if wrong > 1 else ''}"
    say(f"check: {checked.artefacts} of {checked.named} artefacts are there; {said}")
    return status
