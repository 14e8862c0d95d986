"""The shards of an extraction. Each is a file that appears whole:
``<out>/shards/<fingerprint>/<number>-<digest>.safetensors``.

The tensors are ``features`` and, for regions, ``boxes`` and ``scores``. The manifest in the header names the images,
the images without features with the reason, and everything that the features depend on. The digest is that of the whole
file.
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
from vse_pipe.extract.job import Failure, Output

FOLDER = "shards"
_DIGITS = 16
# Bytes at the start of a safetensors file that hold the length of its header.
_LENGTH = 8
_TYPES = {"F32": "<f4", "F16": "<f2"}
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
_NAME = re.compile(r"(\d{6,})-([0-9a-f]{16})\.safetensors")


@dataclass(frozen=True)
class Shard:
    """rows: of the readable images, in the order of images.parquet, None without any; failures: of the other images."""

    rows: Output | None
    failures: list[Failure] = field(default_factory=list)

    @property
    def count(self) -> int:
        return 0 if self.rows is None else len(self.rows.features)


class Damaged(Exception):
    """The file of a shard has changed since it was written. number: of the shard."""

    def __init__(self, number: int, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.number = number


class Shards:
    """The shards of one extraction. fingerprint: hex digest of everything that they depend on; used: folders of shards
    of other extractions whose rows it reuses."""

    def __init__(self, out: Path, fingerprint: str, used: Iterable[Path] = ()) -> None:
        self.fingerprint = fingerprint
        self._all = out / FOLDER
        self._folder = self._all / fingerprint[:_DIGITS]
        self._used = set(used)

    def files(self) -> dict[int, Path]:
        """The files by number. Only names are read; contents are compared with their digests when they are loaded."""
        if not self._folder.is_dir():
            return {}
        names = {path: _NAME.fullmatch(path.name) for path in sorted(self._folder.iterdir())}
        return {int(match[1]): path for path, match in names.items() if match}

    def strangers(self) -> list[Path]:
        """Folders of shards of other extractions that this one does not reuse."""
        return sorted(set(self._all.iterdir()) - {self._folder, *self._used}) if self._all.is_dir() else []

    def tidy(self) -> None:
        """Remove shards of unrelated extractions and unfinished files of killed processes.

        Only for a process that writes alone.
        """
        if self._all.is_symlink():  # the folder that it leads to belongs to the user
            self._all.unlink()
        for path in self.strangers():
            _remove(path)
        own_files = set(self.files().values())
        for path in set(self._folder.iterdir()) - own_files if self._folder.is_dir() else ():
            _remove(path)

    def write(self, number: int, shard: Shard, manifest: dict) -> None:
        """Write a shard, synced and renamed. manifest: JSON, to which rows, failures and the fingerprint are added."""
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
        """The manifest that ``write`` stored; only the header is read. Raises Damaged."""
        try:
            manifest = _manifest(path)
            failures = [Failure(int(image), str(status), str(why)) for image, status, why in manifest["failures"]]
        except _UNREADABLE as error:
            raise Damaged(number, path, f"its manifest cannot be read ({error})") from error
        if (manifest.get("shard"), manifest.get("fingerprint")) != (number, self.fingerprint):
            raise Damaged(number, path, "its manifest is that of another shard")
        return {**manifest, "failures": failures}

    def rows(self, number: int, path: Path) -> dict[str, np.ndarray]:
        """All arrays by name. Raises Damaged when the file does not have the digest in its name."""
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
        except (SafetensorError, KeyError) as error:  # written by another program, under the right digest
            raise Damaged(number, path, f"holds no tensors that can be read ({error})") from error

    def boxes_and_scores(self, number: int, path: Path) -> dict[str, np.ndarray]:
        """All arrays except the features, of a file that ``rows`` has compared with its digest. Raises Damaged."""
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
    """Remove a file or folder; of a symbolic link only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def earlier(out: Path) -> dict[Path, dict]:
    """A manifest of each extraction that has shards below ``out``, by folder."""
    manifests = {}
    for folder in sorted((out / FOLDER).glob("*/")):
        for path in sorted(folder.glob("[0-9]*.safetensors"))[:1]:
            # A reader of an unreadable shard finds it damaged and computes it again.
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
    """The header of a safetensors file, and the byte at which its arrays begin."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
        return json.loads(file.read(min(length, path.stat().st_size))), _LENGTH + length


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
