"""One line of what doctor says."""

from dataclasses import asdict, dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Line:
    """what: the thing looked at; said: what was found; remedy: what to do, empty when ok."""

    state: str
    what: str
    said: str
    remedy: str = ""

    def as_json(self) -> dict:
        return asdict(self)
