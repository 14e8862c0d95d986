"""What a check found, for people and for programs."""

from vse_pipe.core.console import document, line, say
from vse_pipe.project.problems import NOTE, exit_status
from vse_pipe.tools.check.stage import Checked

_WORDS = {NOTE: "note", 2: "params", 3: "artefact", 5: "digest"}


def show(checked: Checked, as_json: bool) -> int:
    """Print a line a problem on stdout; returns the exit status."""
    status = exit_status(checked.problems)
    wrong = [problem for problem in checked.problems if problem.status != NOTE]
    notes = [problem for problem in checked.problems if problem.status == NOTE]
    if as_json:
        document(
            {
                "ok": status == 0,
                "status": status,
                "artefacts": checked.artefacts,
                "named": checked.named,
                "problems": [problem.as_json() for problem in wrong],
                "notes": [problem.as_json() for problem in notes],
            }
        )
        return status
    for problem in checked.problems:
        line(f"{_WORDS[problem.status]:9}{problem.line}")
    said = f"{len(wrong) or 'no'} problem{'' if len(wrong) == 1 else 's'}"
    said += f", {len(notes)} note{'' if len(notes) == 1 else 's'}" if notes else ""
    say(f"check: {checked.artefacts} of {checked.named} artefacts are there; {said}")
    return status
