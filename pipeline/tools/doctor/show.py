"""What doctor found, for people and for programs."""

from pipeline.core.console import document, say, stdout
from pipeline.core.errors import PipelineError
from pipeline.tools.doctor.line import FAIL, WARN, Line


def show(lines: list[Line], as_json: bool) -> int:
    """A line a subject on stdout; returns the exit status, 1 when one fails."""
    failed = sum(line.state == FAIL for line in lines)
    status = PipelineError.exit_status if failed else 0
    if as_json:
        document({"ok": not failed, "status": status, "lines": [line.as_json() for line in lines]})
        return status
    for line in lines:
        told = f"{line.state:5}{line.what}: {line.said}" + (f"; {line.remedy}" if line.remedy else "")
        stdout.print(told, markup=False, highlight=False, soft_wrap=True)
    warned = sum(line.state == WARN for line in lines)
    say(f"doctor: {len(lines)} lines, {failed} failed, {warned} to think about")
    return status
