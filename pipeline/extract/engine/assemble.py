"""Shards to features.npy, index.parquet, errors.parquet and meta.json."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.artifacts import features as artefact
from pipeline.artifacts import unreadable
from pipeline.core.errors import InputError, PipelineError
from pipeline.extract.engine import policy
from pipeline.extract.engine.backbone import Failure
from pipeline.extract.engine.job import Job
from pipeline.extract.engine.shards import Damaged, Shards

_FINE = Failure(0, artefact.OK, "")


def assemble(job: Job, shards: Shards, out: Path) -> None:
    """Write the features, one shard in memory at a time; the shards stay until the caller removes them.

    Killed at any moment, the shards are all there still and ``out`` is what it was or lacks a meta.json that fits, so that
    the next call does it again. Raises Damaged for a shard that is not what was written, InputError when no image could
    be read, PipelineError when the disk has no room for the features beside their shards; then nothing is written.
    """
    files = shards.found()
    manifests = [_checked(job, shards, number, files[number]) for number in range(job.count)]
    count = sum(manifest["rows"] for manifest in manifests)
    if not count:
        failure = next(failure for manifest in manifests for failure in manifest["failures"])
        raise InputError(
            f"{job.where}: none of its {job.table.num_rows} images has features, the first for this reason: {failure.detail}"
        )
    _require_room(out, sum(path.stat().st_size for path in files.values()))
    left_out = policy.named(job, ((number, one["failures"]) for number, one in enumerate(manifests)))
    numbers = [number for number, manifest in enumerate(manifests) if manifest["rows"]]
    blocks = (_features(shards, number, files[number], manifests[number]) for number in numbers)
    index = _index(job, shards, files, manifests)
    beside = partial(unreadable.write, out, left_out)
    artefact.write_blocks(out, blocks, count, index, {**job.about, "fingerprint": job.digest}, beside)


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


def _index(job: Job, shards: Shards, files: dict[int, Path], manifests: list[dict]) -> Iterator[pa.Table]:
    """index.parquet shard by shard: a row for every image, those without features with the reason."""
    first = 0
    for number, manifest in enumerate(manifests):
        ids = job.ids(number).to_numpy()
        failures = {failure.image_id: failure for failure in manifest["failures"]}
        missing = np.isin(ids, list(failures))
        places = pa.array(np.cumsum(~missing) - 1, pa.int64(), mask=missing)
        reasons = [failures.get(image_id, _FINE) for image_id in ids.tolist()]
        columns = {
            "image_id": ids,
            "row": pc.add(places, first),
            "status": [reason.status for reason in reasons],
            "detail": [reason.detail for reason in reasons],
        }
        arrays = shards.beside(number, files[number]) if manifest["rows"] else {}
        for name in artefact.BESIDE:
            found = artefact.lists(arrays[name]).take(places) if name in arrays else pa.nulls(len(ids))
            columns[name] = found
        yield pa.table(columns)
        first += manifest["rows"]
