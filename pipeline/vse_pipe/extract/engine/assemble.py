"""Shards, and rows that were there already, to features.npy, index.parquet, errors.parquet, contents.parquet and meta.json."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import features as artefact
from vse_pipe.artifacts import images, joins
from vse_pipe.core.errors import InputError, PipelineError
from vse_pipe.core.files import whole_folder
from vse_pipe.extract.engine import policy
from vse_pipe.extract.engine.backbone import Failure
from vse_pipe.extract.engine.job import Job
from vse_pipe.extract.engine.merge import Arrays, merged
from vse_pipe.extract.engine.reuse import OURS
from vse_pipe.extract.engine.shards import Damaged, Shards

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
            folder, policy.named(job, ((number, one["failures"]) for number, one in enumerate(manifests)))
        )
        joins.write(folder, job.contents.filter(pa.array(~failed)), artefact.made(job.about))

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
