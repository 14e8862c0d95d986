"""What verify compares, and what it says of one file."""

from dataclasses import dataclass
from pathlib import Path

OK, DAMAGED, MISSING, UNKNOWN = "ok", "damaged", "missing", "no digest kept"
SHA256, PAGES, NAMED = "sha256", "page checksums", "sha256 in its name"
IN_IMAGES, IN_LOCK, OWN = "sha256 in images.parquet", "md5 in dvc.lock", "a digest of its own"
READABLE = "readable"


@dataclass(frozen=True)
class Claim:
    """by: which kind of digest; digest: the first digits or all of it, empty where the file carries it inside."""

    path: Path
    by: str
    digest: str = ""


@dataclass(frozen=True)
class Finding:
    """by: what the content was compared with; empty where nothing was. detail: what is wrong; remedy: what to do."""

    path: Path
    state: str
    by: str = ""
    detail: str = ""
    remedy: str = ""

    @property
    def bad(self) -> bool:
        return self.state in (DAMAGED, MISSING)


@dataclass(frozen=True)
class Verified:
    """One artefact, or whatever lies in a folder that no stage writes."""

    folder: Path
    findings: list[Finding]

    @property
    def state(self) -> str:
        if any(finding.bad for finding in self.findings):
            return DAMAGED
        known = any(finding.state == OK for finding in self.findings)
        return OK if known else UNKNOWN

    def counted(self) -> dict[str, int]:
        """Files by what they were compared with, or by their state where that is not ok."""
        found: dict[str, int] = {}
        for finding in self.findings:
            key = finding.by if finding.state == OK else finding.state
            found[key] = found.get(key, 0) + 1
        return found
