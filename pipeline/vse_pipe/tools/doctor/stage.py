"""doctor: is this machine fit to run the pipeline, and if not, what to do."""

from vse_pipe.project.registry import Family
from vse_pipe.project.traits import Traits
from vse_pipe.tools.doctor.line import FAIL, Line

# A member for each subject; it exports ``look() -> list[Line]`` and changes nothing.
CHECKS = Family("check", "vse_pipe.tools.doctor.checks", Traits())
ORDER = ["python", "packages", "torch", "machine", "disk", "git", "dvc", "weights"]


def examine() -> list[Line]:
    """Every subject in turn, ``ORDER`` first. A subject whose look fails says so instead of ending the command: on a
    machine that is not well anything may be raised."""
    found = []
    for name in [*ORDER, *(name for name in CHECKS.names() if name not in ORDER)]:
        try:
            found += CHECKS.load(name).look()
        except Exception as error:
            found.append(Line(FAIL, name, f"cannot be told: {type(error).__name__}: {error}", "see the lines above"))
    return found
