"""Plans, for people and for programs."""

from vse_pipe.core.console import document, line, say
from vse_pipe.project.step import BLOCKED, DONE, Step


def show(steps: list[Step], as_json: bool) -> None:
    """A line a step on stdout, or one document with the steps and their sums."""
    to_do = [step for step in steps if step.state not in (DONE, BLOCKED)]
    if as_json:
        totals = {"bytes": _sum([step.bytes for step in to_do]), "seconds": _sum([step.seconds for step in to_do])}
        document({"dry_run": True, "steps": [step.as_json() for step in steps], **totals})
        return
    for step in steps:
        line(_line(step))
    states = [step.state for step in steps]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    say(f"dry run: {counted}; nothing was written")


def _line(step: Step) -> str:
    head = f"{step.state:12}{step.stage} {step.name}".rstrip()
    if step.state == BLOCKED:
        return f"{head}: {step.because}"
    rows = ", ".join(f"{count:,} {name}" for name, count in step.rows.items())
    told = [rows, f"{_bytes(step.bytes)} to {step.out}", _seconds(step.seconds)]
    return f"{head}: {'; '.join(part for part in told if part)}" + (f" ({step.because})" if step.because else "")


def _bytes(count: int | None) -> str:
    if count is None:
        return "unknown size"
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def _seconds(count: float | None) -> str:
    if count is None:
        return "time unknown"
    if count < 90:
        return f"about {count:.1f} s"
    return f"about {count / 60:.0f} min" if count < 5400 else f"about {count / 3600:.1f} h"


def _sum(values: list) -> float | None:
    """None as soon as one of them is unknown."""
    return None if any(value is None for value in values) else sum(values)
