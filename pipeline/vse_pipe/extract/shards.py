"""The shards of an extraction, each a file that appears whole:
``<out>/shards/<digest of the job>/<number>-<digest>.safetensors``.

Its arrays are ``features`` and, for regions, ``boxes`` and ``scores``, and ``failures``: JSON of
the images without features. ``assemble`` makes the folder of the features of them and of rows of
earlier features.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from safetensors.numpy import load, save

from vse_pipe.artifacts import features as artefact
from vse_pipe.artifacts import identity
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, whole_file, whole_folder
from vse_pipe.extract.job import Job, Output, Shard

FOLDER = "shards"
_DIGITS = 16
_FAILURES = "failures"
# The number of no shard: rows of earlier features.
_EARLIER = -1
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
        """Remove shards of other extractions, with a message, and unfinished files of killed
        processes, where no other process writes."""
        if self._all.is_symlink():  # the folder that it leads to belongs to the user
            self._all.unlink()
        unrelated = set(self._all.glob("*")) - {self._folder}
        for path in unrelated | set(self._folder.glob("*")) - set(self.files().values()):
            if path.is_dir() and not path.is_symlink():
                say(f"{path}: removed; these shards are of other pictures, options, code or another kind of device")
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


def assemble(job: Job, shards: Shards, failures: dict[int, str], out: Path) -> None:
    """Write the features as a folder that replaces ``out`` and its shards.

    failures: why images have no features, by image_id. Features of two shards are in memory at a
    time. After a kill at any moment ``out`` is unchanged, or the next ``claim`` restores it. Raises
    IntegrityError for a shard that has changed since it was written."""
    ids = job.table["image_id"].to_numpy()
    failed = np.isin(ids, list(failures))
    rows = _Rows(job, shards, failed)
    index: list[pa.Table] = []

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, len(ids), job.shard_rows):
            block = slice(start, start + job.shard_rows)
            values = rows.at(start + np.flatnonzero(~failed[block]))
            reasons = [failures.get(image_id, "") for image_id in ids[block].tolist()]
            table = _index(ids[block], values, failed[block], reasons, failed[:start])
            index.append(table.append_column("content", job.contents[block]))
            if values.features is not None:
                yield values.features

    with whole_folder(out) as folder:
        meta = {**job.about, "fingerprint": job.digest}
        artefact.write(folder, blocks(), index, meta)
        inputs = {str(job.where.parent): {"images": job.about[artefact.IMAGES]}}
        identity.write(folder, inputs, {"features": read_json(folder / artefact.META)["sha256"]})


class _Rows:
    """The rows of images, wherever they are: in earlier features or in a shard of this extraction.

    failed: bool (N,), images without features."""

    def __init__(self, job: Job, shards: Shards, failed: np.ndarray) -> None:
        old = job.earlier
        self._earlier = old and Output(old.array, old.boxes, old.scores)
        self._files = shards.files()
        # Two shards are in memory at once: reused rows between them shift the blocks.
        self._read = lru_cache(maxsize=2)(read)
        self._shard = np.full(len(failed), _EARLIER)
        self._row = job.reused.copy()
        for number in range(job.shard_count):
            places = job.places(number)
            places = places[~failed[places]]
            self._shard[places], self._row[places] = number, np.arange(len(places))

    def at(self, places: np.ndarray) -> Output:
        """The rows of the images at ``places``; None where there are none."""
        shard, row = self._shard[places], self._row[places]
        arrays: dict[str, np.ndarray] = {}
        for number in np.unique(shard).tolist():
            source = self._earlier if number == _EARLIER else self._read(self._files[number]).rows
            chosen = shard == number
            for name in Output._fields:
                values = getattr(source, name)
                if values is not None:
                    shape = (len(places), *values.shape[1:])
                    array = arrays.setdefault(name, np.empty(shape, values.dtype))
                    array[chosen] = values[row[chosen]]
        return Output(**{"features": None, **arrays})


def _index(ids: np.ndarray, values: Output, missing: np.ndarray, reasons: list[str], before: np.ndarray) -> pa.Table:
    """The rows of index.parquet for a block of images. before: whether earlier images failed."""
    places = np.cumsum(~missing) - 1
    columns = {
        "image_id": ids,
        "row": pa.array(places + np.count_nonzero(~before), pa.int64(), mask=missing),
        "status": np.where(missing, artefact.UNREADABLE, artefact.OK).tolist(),
        "detail": reasons,
    }
    for name in artefact.BESIDE:
        if (regions := getattr(values, name)) is not None:
            columns[name] = artefact.lists(regions).take(pa.array(places, mask=missing))
    return pa.table(columns)
