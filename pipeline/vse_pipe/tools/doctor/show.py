"""What doctor found, for people and for programs."""

from vse_pipe.core.console import document, line, say
from vse_pipe.core.errors import PipelineError
from vse_pipe.tools.doctor.line import FAIL, WARN, Line


def show(lines: list[Line], as_json: bool) -> int:
    """A line a subject on stdout; returns the exit status, 1 when one fails."""
    failed = sum(one.state == FAIL for one in lines)
    status = PipelineError.exit_status if failed else 0
    if as_json:
        document({"ok": not failed, "status": status, "lines": [one.as_json() for one in lines]})
        return status
    for one in lines:
        told = f"{one.state:5}{one.what}: {one.said}" + (f"; {one.remedy}" if one.remedy else "")
        line(told)
    warned = sum(one.state == WARN for one in lines)
    say(f"doctor: {len(lines)} lines, {failed} failed, {warned} to think about")
    return status
