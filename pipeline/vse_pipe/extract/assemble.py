"""Rows that need not be computed: those of the same pictures, made alike, in the features that are there or in shards of an
extraction of another list of images that was interrupted.
"""

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import features as artefact
from vse_pipe.artifacts import images, joins
from vse_pipe.artifacts.features import Features
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError
from vse_pipe.core.files import read_json, whole_folder
from vse_pipe.extract import recognise
from vse_pipe.extract.backbone import Failure
from vse_pipe.extract.job import Job, Reused, RowSource
from vse_pipe.extract.shards import Damaged, Shards, earlier, mapped

# Files of a folder of features, shards included: what a new one replaces.
OURS = (artefact.ARRAY, artefact.INDEX, artefact.META, images.UNREADABLE, joins.NAME, "shards/*", "parts/*")
# Shards that are mapped at once: a map keeps its file open.
_mapped = lru_cache(maxsize=16)(mapped)


@dataclass(frozen=True)
class _Folder:
    held: Features

    def array(self, name: str) -> np.ndarray | None:
        return self.held.array if name == "features" else getattr(self.held, name)


@dataclass(frozen=True)
class _Shard:
    path: Path

    def array(self, name: str) -> np.ndarray | None:
        return _mapped(self.path).get(name)


def growing(job: Job, out: Path, verify: bool = True) -> Job:
    """``job`` without the rows that ``out`` holds already. verify: what is damaged there counts for nothing; without it contents
    are not compared with their digests, which takes a second a gigabyte."""
    if job.contents.null_count == len(job.contents):
        return job
    made = artefact.row_digest(job.about)
    found = [*_of_folder(out, made, job, verify), *_of_shards(out, made, job, verify)]
    if not found:
        return job
    known, sources = zip(*found, strict=True)
    places = joins.places(job.contents, known)
    if places.null_count == len(places):
        return job
    sizes = list(map(len, known))
    there = places.is_valid().to_numpy(zero_copy_only=False)
    place = places.fill_null(0).to_numpy().astype(np.int64)
    number = np.repeat(np.arange(len(sources)), sizes)[place]
    row = place - np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)[place]
    return replace(job, reused=Reused(sources, np.where(there, number, -1), row))


def shards_of(job: Job, out: Path) -> Shards:
    """The shards of ``job``, which keeps those of others whose rows it takes."""
    sources = () if job.reused is None else job.reused.sources
    return Shards(out, job.shards_digest, {one.path.parent for one in sources if isinstance(one, _Shard)})


def about_now(out: Path, images_sha256: str) -> Iterator[dict]:
    """What features of the images that are there now may follow from, as far as ``out`` tells: what earlier extractions did."""
    abouts = [manifest["about"] for manifest in earlier(out).values()]
    if (out / artefact.META).is_file():
        with contextlib.suppress(InputError):  # told where the features are looked at
            abouts.append(artefact.about(read_json(out / artefact.META)))
    seen = []
    for about in ({**one, artefact.IMAGES: images_sha256} for one in abouts):
        if about not in seen:
            seen.append(about)
            yield about


def _of_folder(out: Path, made: str, job: Job, verify: bool) -> Iterator[tuple[pa.ChunkedArray, RowSource]]:
    if not (out / artefact.META).is_file() or not (out / joins.NAME).is_file():
        return
    try:
        known, how = joins.read(out)
        # Under the job's own fingerprint they would be what is wanted, were they not damaged.
        if how == made and read_json(out / artefact.META).get("fingerprint") != job.digest:
            held = artefact.read(out, verify)
            if len(known) == len(held.array):
                yield known, _Folder(held)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; doing so now")


def _of_shards(out: Path, made: str, job: Job, verify: bool) -> Iterator[tuple[pa.Array, RowSource]]:
    """Of lists of images other than the job's: its own shards it knows by their numbers."""
    for manifest in earlier(out).values():
        about = manifest["about"]
        if about.get(artefact.IMAGES) == job.about[artefact.IMAGES] or artefact.row_digest(about) != made:
            continue
        shards = Shards(out, manifest["fingerprint"])
        for number, path in shards.found().items():
            with contextlib.suppress(Damaged):
                yield from _of_shard(shards, number, path, verify)


def _of_shard(shards: Shards, number: int, path: Path, verify: bool) -> Iterator[tuple[pa.Array, RowSource]]:
    manifest = shards.manifest(number, path)
    if verify:
        shards.rows(number, path)
    failed = {failure.image_id for failure in manifest["failures"]}
    known = [content for image_id, content in manifest.get("contents", []) if image_id not in failed]
    if known and len(known) == manifest["rows"]:
        yield pa.array(known, pa.string()), _Shard(path)


Arrays = dict[str, np.ndarray]


def merged(
    job: Job, computed: Iterator[Arrays], failed: np.ndarray, names: Sequence[str]
) -> Iterator[tuple[slice, Arrays]]:
    """For every ``size`` rows of images.parquet, these and the arrays ``names`` of those of them that have features; a name
    without arrays is left out.

    computed: of shard after shard; failed: bool (N,), images that have no features. One shard and one block of as many rows are in
    memory.
    """
    waiting = _Queue(computed)
    for start in range(0, job.table.num_rows, job.size):
        rows = slice(start, start + job.size)
        kept = ~failed[rows]
        there = np.full(len(kept), -1) if job.reused is None else job.reused.number[rows]
        new = waiting.take(int((there[kept] < 0).sum()))
        if job.reused is None or not (there >= 0).any():
            yield rows, new
            continue
        places = np.arange(start, start + len(kept))[kept]
        found = {name: _mixed(job, places, new.get(name), name) for name in names}
        yield rows, {name: values for name, values in found.items() if values is not None}


def _mixed(job: Job, places: np.ndarray, new: np.ndarray | None, name: str) -> np.ndarray | None:
    """(len(places), ...), ``new`` where a row was computed now; None where nobody has the array."""
    assert job.reused is not None
    number, row = job.reused.number[places], job.reused.row[places]
    mixed: np.ndarray | None = None
    for source in np.unique(number).tolist():
        values = new if source < 0 else job.reused.sources[source].array(name)
        if values is None:
            continue
        mine = number == source
        if mixed is None:
            mixed = np.empty((len(places), *values.shape[1:]), values.dtype)
        mixed[mine] = values if source < 0 else values[row[mine]]
    return mixed


class _Queue:
    """Rows of one shard after the other, as many at a time as are asked for."""

    def __init__(self, shards: Iterator[Arrays]) -> None:
        self._shards = shards
        self._waiting: Arrays = {}

    def take(self, count: int) -> Arrays:
        while count and self._length() < count:
            if not (more := next(self._shards, {})):  # none of them has such arrays
                return {}
            held = self._waiting if self._length() else {}
            self._waiting = {name: np.concatenate([held[name], more[name]]) for name in held} or more
        taken = {name: values[:count] for name, values in self._waiting.items()}
        self._waiting = {name: values[count:] for name, values in self._waiting.items()}
        return taken if count else {}

    def _length(self) -> int:
        return len(next(iter(self._waiting.values()), ()))


_FINE = Failure(0, artefact.OK, "")


def assemble(job: Job, shards: Shards, out: Path) -> None:
    """Write the features, one shard in memory at a time, as a folder that takes the place of ``out``, shards included.

    Killed at any moment, ``out`` is what it was, or the next ``claim`` of it makes it so. Raises Damaged for a shard that is not
    what was written, InputError when no image could be read, PipelineError when the disk has no room for the features beside
    what is there; then nothing is written.
    """
    files = shards.found()
    manifests = [_checked(job, shards, number, files[number]) for number in range(job.count)]
    failures = {failure.image_id: failure for manifest in manifests for failure in manifest["failures"]}
    count = job.table.num_rows - len(failures)
    if not count:
        reason = next(iter(failures.values())).detail
        raise InputError(
            f"{job.where}: none of its {job.table.num_rows} images has features, the first for this reason: {reason}"
        )
    _require_room(out, sum(path.stat().st_size for path in files.values()) + _reused_bytes(job))
    failed = np.isin(job.table["image_id"].to_numpy(), list(failures))
    numbers = [number for number, manifest in enumerate(manifests) if manifest["rows"]]
    computed = ({"features": _features(shards, number, files[number], manifests[number])} for number in numbers)
    rows = (arrays["features"] for _, arrays in merged(job, computed, failed, ["features"]) if arrays)
    beside = (shards.beside(number, files[number]) for number in numbers)
    index = (
        _index(job.table["image_id"].slice(rows.start, job.size).to_numpy(), arrays, failures)
        for rows, arrays in merged(job, beside, failed, artefact.BESIDE)
    )

    def others() -> None:
        images.write_unreadable(
            folder, recognise.named(job, ((number, one["failures"]) for number, one in enumerate(manifests)))
        )
        joins.write(folder, job.contents.filter(pa.array(~failed)), artefact.row_digest(job.about))

    with whole_folder(out, OURS) as folder:
        artefact.write_blocks(folder, rows, count, _numbered(index), {**job.about, "fingerprint": job.digest}, others)


def _reused_bytes(job: Job) -> int:
    if job.reused is None:
        return 0
    array = job.reused.sources[0].array("features")
    assert array is not None
    return job.reused.count * array[:1].nbytes


def _require_room(out: Path, needed: int) -> None:
    free = shutil.disk_usage(out).free
    if free < needed:
        raise PipelineError(
            f"{out}: putting its shards together takes {needed / 1e9:.2f} GB and the disk has {free / 1e9:.2f} GB free; the "
            "shards are kept: make room and run the same command again"
        )


def _checked(job: Job, shards: Shards, number: int, path: Path) -> dict:
    found, wanted = shards.manifest(number, path), job.manifest(number)
    ids = set(job.ids(number).to_pylist())
    missing = {failure.image_id for failure in found["failures"]}
    whole = len(missing) == len(found["failures"]) and found.get("rows") == len(ids - missing)
    if not whole or not missing <= ids or any(found.get(key) != value for key, value in wanted.items()):
        raise Damaged(number, path, "its manifest does not fit images.parquet")
    return found


def _features(shards: Shards, number: int, path: Path, manifest: dict) -> np.ndarray:
    found = shards.rows(number, path)
    if "features" not in found or any(array.shape[:1] != (manifest["rows"],) for array in found.values()):
        raise Damaged(number, path, "its features are not those that its manifest speaks of")
    return found["features"]


def _index(ids: np.ndarray, arrays: Arrays, failures: dict[int, Failure]) -> pa.Table:
    """Rows of index.parquet, counted from 0: one for every image, those without features with the reason."""
    missing = np.isin(ids, list(failures))
    places = pa.array(np.cumsum(~missing) - 1, pa.int64(), mask=missing)
    reasons = [failures.get(image_id, _FINE) for image_id in ids.tolist()]
    columns = {
        "image_id": ids,
        "row": places,
        "status": [reason.status for reason in reasons],
        "detail": [reason.detail for reason in reasons],
    }
    for name in artefact.BESIDE:
        columns[name] = artefact.lists(arrays[name]).take(places) if name in arrays else pa.nulls(len(ids))
    return pa.table(columns)


def _numbered(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Their rows counted through."""
    first = 0
    for table in tables:
        rows = table["row"]
        yield table.set_column(1, "row", pc.add(rows, first))
        first += len(rows) - rows.null_count
