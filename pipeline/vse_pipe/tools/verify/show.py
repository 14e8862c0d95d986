"""What verify found, for people and for programs."""

from vse_pipe.core.console import document, line, say
from vse_pipe.core.errors import IntegrityError
from vse_pipe.tools.verify.finding import OK, Finding, Verified

_SHOWN = 20


def show(found: list[Verified], as_json: bool) -> int:
    """A line an artefact, and one below it for each file that is not what it was; returns the exit status."""
    bad = [finding for one in found for finding in one.findings if finding.bad]
    status = IntegrityError.exit_status if bad else 0
    if as_json:
        document({"ok": not bad, "status": status, "artefacts": [_as_json(one) for one in found]})
        return status
    for one in found:
        counted = ", ".join(f"{count} {by}" for by, count in one.counted().items()) or "no files"
        line(f"{one.state:15}{one.folder}  ({counted})")
        wrong = [finding for finding in one.findings if finding.bad]
        for finding in wrong[:_SHOWN]:
            line(f"{'':15}{_said(finding)}")
        if len(wrong) > _SHOWN:
            line(f"{'':15}and {len(wrong) - _SHOWN} more")
    files = sum(len(one.findings) for one in found)
    known = sum(finding.state == OK for one in found for finding in one.findings)
    rest = files - known - len(bad)
    unknown = f", nobody kept a digest of {rest}" if rest else ""
    say(f"verify: {known} of {files} files are what they were, {len(bad)} are not{unknown}")
    return status


def _said(finding: Finding) -> str:
    return f"{finding.path}: {finding.detail}; {finding.remedy}"


def _as_json(one: Verified) -> dict:
    return {
        "path": str(one.folder),
        "state": one.state,
        "files": one.counted(),
        "problems": [
            {
                "path": str(finding.path),
                "state": finding.state,
                "compared_with": finding.by,
                "problem": finding.detail,
                "advice": finding.remedy,
            }
            for finding in one.findings
            if finding.bad
        ],
    }
