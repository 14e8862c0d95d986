"""What an extraction has finished so far: shards, each a file that appears whole and says what it is.

Layout: ``<out>/shards/<fingerprint>/<number>-<digest>.safetensors``. The tensors are ``features`` and, for regions, ``boxes``
and ``scores``; the manifest in the file's header says which images they are of, which of them have no features and why, and
everything the features follow from. The digest in the name is of the whole file, manifest included.
"""

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from vse_pipe.core.files import whole_file
from vse_pipe.extract.backbone import Failure, Output

FOLDER = "shards"
_DIGITS = 16
# Bytes before the header of a safetensors file, which say how long it is.
_LENGTH = 8
_TYPES = {"F32": "<f4", "F16": "<f2"}
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
_NAME = re.compile(r"(\d{6,})-([0-9a-f]{16})\.safetensors")


@dataclass(frozen=True)
class Shard:
    """rows: of the images that could be read, in the order of images.parquet, None when none could; failures: the others."""

    rows: Output | None
    failures: list[Failure] = field(default_factory=list)

    @property
    def count(self) -> int:
        return 0 if self.rows is None else len(self.rows.features)


class Damaged(Exception):
    """A shard's file is not what it was when it was written. number: of the shard."""

    def __init__(self, number: int, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.number = number


class Shards:
    """The shards of one extraction. fingerprint: hex digest of everything that decides what is in them; used: folders of shards of
    others whose rows it takes."""

    def __init__(self, out: Path, fingerprint: str, used: Iterable[Path] = ()) -> None:
        self.fingerprint = fingerprint
        self._all = out / FOLDER
        self._folder = self._all / fingerprint[:_DIGITS]
        self._used = set(used)

    def files(self) -> dict[int, Path]:
        """The files by number. Told by their names alone: contents are compared with their digests when they are read."""
        if not self._folder.is_dir():
            return {}
        names = {path: _NAME.fullmatch(path.name) for path in sorted(self._folder.iterdir())}
        return {int(match[1]): path for path, match in names.items() if match}

    def strangers(self) -> list[Path]:
        """Folders of shards that belong to other extractions and are of no use to this one."""
        return sorted(set(self._all.iterdir()) - {self._folder, *self._used}) if self._all.is_dir() else []

    def tidy(self) -> None:
        """Remove what is no shard of this extraction, nor of one whose rows it takes: shards of others and what a killed process
        was writing.

        Only for a process that writes alone.
        """
        if self._all.is_symlink():  # what lies there is not ours to remove
            self._all.unlink()
        for path in self.strangers():
            _remove(path)
        own_files = set(self.files().values())
        for path in set(self._folder.iterdir()) - own_files if self._folder.is_dir() else ():
            _remove(path)

    def write(self, number: int, shard: Shard, manifest: dict) -> None:
        """Synced and renamed, file and folder. manifest: as JSON; rows, failures and the fingerprint are added to it."""
        from safetensors.numpy import save

        rows = {} if shard.rows is None else shard.rows._asdict()
        tensors = {name: np.ascontiguousarray(array) for name, array in rows.items() if array is not None}
        about = {
            **manifest,
            "shard": number,
            "rows": shard.count,
            "failures": shard.failures,
            "fingerprint": self.fingerprint,
        }
        content = save(tensors, {"manifest": json.dumps(about, sort_keys=True, ensure_ascii=False)})
        path = self._folder / f"{number:06d}-{_digest(content)}.safetensors"
        with whole_file(path) as temporary:
            temporary.write_bytes(content)

    def manifest(self, number: int, path: Path) -> dict:
        """What ``write`` was given and added; only the header is read. Raises Damaged."""
        try:
            manifest = _manifest(path)
            failures = [Failure(int(one), str(status), str(detail)) for one, status, detail in manifest["failures"]]
        except _UNREADABLE as error:
            raise Damaged(number, path, f"its manifest cannot be read ({error})") from error
        if (manifest.get("shard"), manifest.get("fingerprint")) != (number, self.fingerprint):
            raise Damaged(number, path, "its manifest is that of another shard")
        return {**manifest, "failures": failures}

    def rows(self, number: int, path: Path) -> dict[str, np.ndarray]:
        """All arrays by name, the file compared with the digest in its name. Raises Damaged."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            content = path.read_bytes()
        except OSError as error:
            raise Damaged(number, path, f"cannot be read ({error.strerror})") from error
        match = _NAME.fullmatch(path.name)
        if not match or match[2] != _digest(content):
            raise Damaged(number, path, "its content does not match the digest in its name")
        try:
            return load(content)
        except (SafetensorError, KeyError) as error:  # written by something else, under a digest that fits
            raise Damaged(number, path, f"holds no tensors that can be read ({error})") from error

    def boxes_and_scores(self, number: int, path: Path) -> dict[str, np.ndarray]:
        """Every array but the features, of a file that ``rows`` has compared with its digest. Raises Damaged."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as file:
                return {name: file.get_tensor(name) for name in file.keys() if name != "features"}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise Damaged(number, path, f"cannot be read ({error})") from error

    def drop(self, number: int) -> None:
        if path := self.files().get(number):
            path.unlink()

    def remove(self) -> None:
        _remove(self._all)


def _remove(path: Path) -> None:
    """Of a symbolic link the link alone, never what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def earlier(out: Path) -> dict[Path, dict]:
    """What the shards below ``out`` follow from: by folder one manifest for each extraction that has left any."""
    manifests = {}
    for folder in sorted((out / FOLDER).glob("*/")):
        for path in sorted(folder.glob("[0-9]*.safetensors"))[:1]:
            # Whoever needs a shard that cannot be read will find it damaged and compute it again.
            with contextlib.suppress(*_UNREADABLE):
                manifest = _manifest(path)
                if isinstance(manifest["about"], dict):
                    manifests[folder] = manifest
    return manifests


def mapped(path: Path) -> dict[str, np.ndarray]:
    """Memory maps of the arrays of a file that ``Shards.rows`` has compared with its digest."""
    header, start = _header(path)
    return {
        name: np.memmap(path, _TYPES[about["dtype"]], "r", start + about["data_offsets"][0], tuple(about["shape"]))
        for name, about in header.items()
        if name != "__metadata__"
    }


def _manifest(path: Path) -> dict:
    return json.loads(_header(path)[0]["__metadata__"]["manifest"])


def _header(path: Path) -> tuple[dict, int]:
    """The header of a safetensors file, and where its arrays begin."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        return json.loads(file.read(min(length, path.stat().st_size))), _LENGTH + length


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
