"""The shards of an extraction, each a file that appears whole:
``<out>/shards/<fingerprint>/<number>-<digest>.safetensors``.

Its arrays are ``features`` and, for regions, ``boxes`` and ``scores``, and ``failures``: JSON of
the images without features.
"""

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from vse_pipe.core.console import warn
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import whole_file
from vse_pipe.extract.job import Job, Output, Shard

FOLDER = "shards"
_DIGITS = 16
_FAILURES = "failures"
_NAME = re.compile(r"(\d{6,})-[0-9a-f]{16}\.safetensors")


class Shards:
    """The shards of ``job`` below the folder ``out`` of its features."""

    def __init__(self, out: Path, job: Job) -> None:
        self._all = out / FOLDER
        self._folder = self._all / job.shards_digest[:_DIGITS]

    def files(self) -> dict[int, Path]:
        """The files by number. Only names are read."""
        names = {path: _NAME.fullmatch(path.name) for path in sorted(self._folder.glob("*"))}
        return {int(match[1]): path for path, match in names.items() if match}

    def finished(self) -> dict[int, dict[int, str]]:
        """The failures of each finished shard, by number. Damaged shards are removed, with a
        warning, and computed again."""
        finished: dict[int, dict[int, str]] = {}
        for number, path in self.files().items():
            try:
                finished[number] = read(path).failures
            except IntegrityError as error:
                warn(f"{error}; computing shard {number} again")
                path.unlink()
        return finished

    def tidy(self) -> None:
        """Remove shards of other extractions and unfinished files of killed processes, where no other
        process writes."""
        if self._all.is_symlink():  # the folder that it leads to belongs to the user
            self._all.unlink()
        unrelated = set(self._all.glob("*")) - {self._folder}
        for path in unrelated | set(self._folder.glob("*")) - set(self.files().values()):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def write(self, number: int, shard: Shard) -> None:
        """Write a shard, synced and renamed."""
        rows = {} if shard.rows is None else shard.rows._asdict()
        arrays = {name: np.ascontiguousarray(array) for name, array in rows.items() if array is not None}
        failures = json.dumps(list(shard.failures.items())).encode()
        content = save({**arrays, _FAILURES: np.frombuffer(failures, np.uint8)})
        with whole_file(self._folder / _name(number, content)) as temporary:
            temporary.write_bytes(content)


def read(path: Path) -> Shard:
    """The arrays and failures of a shard. Raises IntegrityError for a file that has changed."""
    content = path.read_bytes()
    if path.name != _name(int(path.name.partition("-")[0]), content):
        raise IntegrityError(f"{path}: its content does not match its name")
    arrays = load(content)
    failures = dict(json.loads(arrays.pop(_FAILURES).tobytes()))
    return Shard(Output(**arrays) if arrays else None, failures)


def _name(number: int, content: bytes) -> str:
    digest = hashlib.sha256(b"%d " % number + content).hexdigest()[:_DIGITS]
    return f"{number:06d}-{digest}.safetensors"
