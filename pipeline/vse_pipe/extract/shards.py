"""The shards of an extraction, each a file that appears whole:
``<out>/shards/<fingerprint>/<number>-<digest of the file>.safetensors``.

Its arrays are ``features`` and, for regions, ``boxes`` and ``scores``; its header names the shard,
the fingerprint of everything that it depends on, and the images without features.
"""

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from vse_pipe.core.console import warn
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import whole_file
from vse_pipe.extract.job import Job, Output, Shard

FOLDER = "shards"
_DIGITS = 16
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError)
_NAME = re.compile(r"(\d{6,})-([0-9a-f]{16})\.safetensors")


class Shards:
    """The shards of ``job`` below the folder ``out`` of its features."""

    def __init__(self, out: Path, job: Job) -> None:
        self._job, self._fingerprint = job, job.shards_digest
        self._all = out / FOLDER
        self._folder = self._all / self._fingerprint[:_DIGITS]

    def files(self) -> dict[int, Path]:
        """The files by number. Only names are read."""
        if not self._folder.is_dir():
            return {}
        names = {path: _NAME.fullmatch(path.name) for path in sorted(self._folder.iterdir())}
        return {int(match[1]): path for path, match in names.items() if match}

    def finished(self) -> dict[int, dict[int, str]]:
        """The failures of each finished shard, by number. Damaged shards are removed, with a
        warning, and computed again."""
        finished: dict[int, dict[int, str]] = {}
        for number, path in self.files().items():
            try:
                finished[number] = self.read(number).failures
            except IntegrityError as error:
                warn(f"{error}; computing shard {number} again")
                path.unlink(missing_ok=True)
        return finished

    def tidy(self) -> None:
        """Remove shards of other extractions and unfinished files of killed processes.

        Only for a process that writes alone."""
        if self._all.is_symlink():  # the folder that it leads to belongs to the user
            self._all.unlink()
        unrelated = set(self._all.iterdir()) - {self._folder} if self._all.is_dir() else set()
        finished = set(self.files().values())
        unfinished = set(self._folder.iterdir()) - finished if self._folder.is_dir() else set()
        for path in unrelated | unfinished:
            _remove(path)

    def write(self, number: int, shard: Shard) -> None:
        """Write a shard, synced and renamed."""
        rows = {} if shard.rows is None else shard.rows._asdict()
        arrays = {name: np.ascontiguousarray(array) for name, array in rows.items() if array is not None}
        about = {
            "shard": number,
            "fingerprint": self._fingerprint,
            "failures": list(shard.failures.items()),
        }
        content = save(arrays, {"manifest": json.dumps(about, ensure_ascii=False)})
        path = self._folder / f"{number:06d}-{_digest(content)}.safetensors"
        with whole_file(path) as temporary:
            temporary.write_bytes(content)

    def read(self, number: int) -> Shard:
        """The arrays and failures of a shard. Raises IntegrityError for a file that has changed."""
        path = self.files()[number]
        try:
            content = path.read_bytes()
            arrays, manifest = load(content), _manifest(path)
            failures = {int(image_id): str(reason) for image_id, reason in manifest["failures"]}
            kind = manifest["shard"], manifest["fingerprint"]
            rows = Output(**arrays) if arrays else None
            lengths = {len(array) for array in arrays.values()} or {0}
        except _UNREADABLE as error:
            raise IntegrityError(f"{path}: cannot be read ({error})") from error
        count = len(self._job.places(number)) - len(failures)
        named = path.name == f"{number:06d}-{_digest(content)}.safetensors"
        if not (named and lengths == {count} and kind == (number, self._fingerprint)):
            raise IntegrityError(f"{path}: its content does not match its name")
        return Shard(rows, failures)


def _remove(path: Path) -> None:
    """Remove a file or folder; of a symbolic link only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _manifest(path: Path) -> dict:
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["manifest"])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
