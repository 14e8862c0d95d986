"""What `vse-pipe evaluate` and `vse-pipe export` would do with vectors of the user's own."""

from pathlib import Path

from vse_pipe.core.damage import Damage
from vse_pipe.core.errors import InputError
from vse_pipe.project.step import AGAIN, RUNS, Step, blocked, rows_in

_UNTIMED = "calls on files are not timed"


def plan(stage: str, images: Path, captions: Path, criteria: list[str], out: Path | None) -> Step:
    """stage: ``evaluate`` or ``export``; out: None where nothing would be written."""
    where = out or Path("the terminal")
    stopped = blocked(stage, "files", where, [images, captions])
    if stopped:
        return stopped
    counts = {"images": _rows(images), "captions": _rows(captions)}
    rows = {name: count for name, count in counts.items() if count is not None} | {"criteria": len(criteria)}
    again = out is not None and out.exists()
    return Step(stage, "files", str(where), AGAIN if again else RUNS, rows, None if out else 0, None, _UNTIMED)


def _rows(path: Path) -> int | None:
    """From the header or footer; None for a file that has none to read."""
    if path.suffix != ".npy":
        return rows_in(path)
    from vse_pipe.core import arrays

    try:
        return arrays.opened(path, Damage(InputError, "write it again")).shape[0]
    except (OSError, InputError, IndexError):
        return None
