"""That a run is finished: last/finished.json, what it was trained under and a digest of every file it left.

``train`` called again with the same inputs reads this and returns; DVC calls it again after every edit of a file that only
some runs import.
"""

import json
from pathlib import Path

from pipeline.core.files import sha256, write_json

FILE = Path("last") / "finished.json"


def record(folder: Path, mark: str) -> None:
    """To be called when everything else is written. mark: the run's fingerprint."""
    write_json(folder / FILE, _content(folder, mark))


def is_finished(folder: Path, mark: str) -> bool:
    """Whether every file in ``folder`` is as the run with this fingerprint left it."""
    path = folder / FILE
    if not path.is_file():
        return False
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        return False  # damaged: it is written anew with the rest
    return found == _content(folder, mark)


def _content(folder: Path, mark: str) -> dict:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / FILE)
    return {"fingerprint": mark, "files": {path.relative_to(folder).as_posix(): sha256(path) for path in files}}
