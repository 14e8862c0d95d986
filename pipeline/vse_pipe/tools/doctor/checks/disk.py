"""Room where outputs, DVC's cache and weights go."""

import os
import shutil
from pathlib import Path

from vse_pipe.project.paths import root_around
from vse_pipe.tools.doctor.line import FAIL, OK, WARN, Line

_NEEDED_GB, _COMFORTABLE_GB = 1.0, 10.0


def look() -> list[Line]:
    return [_line(what, path) for what, path in places().items()]


def places() -> dict[str, Path]:
    """The project, DVC's cache and the folder of weights."""
    from vse_pipe.project.lock import cache_folder

    project = root_around()
    found = {"disk, project": project or Path.cwd()}
    if project is not None:
        found["disk, DVC cache"] = project / cache_folder()
    return found | {"disk, weights": weights_folder()}


def weights_folder() -> Path:
    """As vse_pipe.core.weights has it, which imports what a machine in trouble may lack."""
    if folder := os.environ.get("VSE_PIPE_WEIGHTS"):
        return Path(folder)
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def _line(what: str, path: Path) -> Line:
    there = next(one for one in [path.absolute(), *path.absolute().parents] if one.exists())
    free = shutil.disk_usage(there).free / 1e9
    said = f"{free:.1f} GB free at {path}"
    if not os.access(there, os.W_OK):
        return Line(FAIL, what, f"{there} cannot be written to", "change its rights, or work in another folder")
    if free < _NEEDED_GB:
        return Line(FAIL, what, said, "make room: less than 1 GB is left")
    if free < _COMFORTABLE_GB:
        return Line(WARN, what, said, "features of a large data set may not fit; make room before `vse-pipe extract`")
    return Line(OK, what, said)
