"""That a run is finished: last/finished.json, what it was trained under and a digest of every file it left.

``train`` called again with the same inputs reads this and returns; DVC calls it again after every edit of a file that only
some runs import. The state that a killed run goes on from is no part of a finished run, unless it is kept.
"""

import json
from pathlib import Path

from vse_pipe.core.files import sha256, write_json
from vse_pipe.train.engine import checkpoint

FILE = Path("last") / "finished.json"


def record(folder: Path, mark: str, keep_state: bool = False) -> None:
    """To be called when everything else is written. mark: the run's fingerprint; keep_state: the state counts as a file of the run."""
    write_json(folder / FILE, _content(folder, mark, keep_state))


def is_finished(folder: Path, mark: str, keep_state: bool = False) -> bool:
    """Whether every file in ``folder`` is as the run with this fingerprint left it."""
    path = folder / FILE
    if not path.is_file() or (keep_state and not (folder / checkpoint.FILE).is_file()):
        return False
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        return False  # damaged: it is written anew with the rest
    return found == _content(folder, mark, keep_state)


def drop_state(folder: Path) -> None:
    """Remove the state of a run that is finished and does not keep it."""
    (folder / checkpoint.FILE).unlink(missing_ok=True)


def _content(folder: Path, mark: str, keep_state: bool) -> dict:
    skipped = {FILE} if keep_state else {FILE, checkpoint.FILE}
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {
        "fingerprint": mark,
        "files": {name.as_posix(): sha256(folder / name) for name in names if name not in skipped},
    }
