"""From shards and rows of earlier features to the folder of the features; which images may be left out."""

import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import digests, identity, images
from vse_pipe.artifacts import features as artefact
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, whole_folder
from vse_pipe.extract.job import Job, Output
from vse_pipe.extract.shards import Shards
from vse_pipe.project.params.typed import FeatureSet

# Files of a folder of features, shards included; a new folder replaces them.
OURS = (artefact.ARRAY, artefact.INDEX, artefact.META, images.UNREADABLE, digests.NAME, "shards/*")
# The number of no shard: rows of earlier features.
_EARLIER = -1
# Images that a message names.
_EXAMPLES = 20


def assemble(job: Job, shards: Shards, failures: dict[int, str], out: Path) -> None:
    """Write the features as a folder that replaces ``out`` and its shards.

    failures: why images have no features, by image_id. Two shards are in memory at a time. After a
    kill at any moment ``out`` is unchanged, or the next ``claim`` restores it. Raises
    IntegrityError for a shard that has changed since it was written."""
    ids = job.table["image_id"].to_numpy()
    failed = np.isin(ids, list(failures))
    rows = _Rows(job, shards, failed)
    index: list[pa.Table] = []

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, len(ids), job.size):
            block = slice(start, start + job.size)
            values = rows.taken(start + np.flatnonzero(~failed[block]))
            reasons = [failures.get(image_id, "") for image_id in ids[block].tolist()]
            index.append(_index(ids[block], values, failed[block], reasons, failed[:start]))
            if values.features is not None:
                yield values.features

    with whole_folder(out, OURS) as folder:
        images.write_unreadable(folder, unreadable_table(job, failures))
        contents = job.contents.filter(pa.array(~failed))
        digests.write(folder, contents, artefact.row_digest(job.about))
        meta = {**job.about, "fingerprint": job.digest}
        artefact.write_blocks(folder, blocks(), len(ids) - len(failures), index, meta)
        read = {str(job.where.parent): {"images": job.about[artefact.IMAGES]}}
        identity.write(folder, read, {"features": read_json(folder / artefact.META)["sha256"]})


class _Rows:
    """The rows of images, wherever they are: in earlier features or in a shard of this extraction.

    failed: bool (N,), images without features."""

    def __init__(self, job: Job, shards: Shards, failed: np.ndarray) -> None:
        old = job.earlier
        self._earlier = old and Output(old.array, old.boxes, old.scores)
        # Two shards are in memory at once: reused rows between them shift the blocks.
        self._read = lru_cache(maxsize=2)(shards.read)
        self._shard = np.full(len(failed), _EARLIER)
        self._row = np.zeros(len(failed), np.int64) if job.reused is None else job.reused.copy()
        for number in range(job.count):
            places = job.places(number)
            places = places[~failed[places]]
            self._shard[places], self._row[places] = number, np.arange(len(places))

    def taken(self, places: np.ndarray) -> Output:
        """The rows of the images at ``places``; None where there are none."""
        shard, row = self._shard[places], self._row[places]
        taken: dict[str, np.ndarray] = {}
        for number in np.unique(shard).tolist():
            source = self._earlier if number == _EARLIER else self._read(number).rows
            chosen = shard == number
            for name in Output._fields:
                values = getattr(source, name)
                if values is not None:
                    shape = (len(places), *values.shape[1:])
                    array = taken.setdefault(name, np.empty(shape, values.dtype))
                    array[chosen] = values[row[chosen]]
        return Output(**{"features": None, **taken})


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
        if (beside := getattr(values, name)) is not None:
            columns[name] = artefact.lists(beside).take(pa.array(places, mask=missing))
    return pa.table(columns)


def unreadable_table(job: Job, failures: dict[int, str]) -> pa.Table:
    """The rows of errors.parquet."""
    ids = job.table["image_id"].to_numpy()
    failed = np.flatnonzero(np.isin(ids, list(failures)))
    files = job.table["file"].take(failed).to_pylist()
    columns = [ids[failed].tolist(), files, [failures[image_id] for image_id in ids[failed].tolist()]]
    return pa.table(columns, schema=images.UNREADABLE_SCHEMA)


def limit(node: FeatureSet, count: int) -> int:
    """The number of ``count`` images that may be left out; a share is rounded up."""
    if node.on_error == "fail":
        return 0
    return int(node.max_errors) if node.max_errors >= 1 else math.ceil(node.max_errors * count)


def require_allowed(job: Job, failures: dict[int, str], name: str) -> None:
    """Check the failures so far. name: of the features.

    Raises InputError under ``fail`` for the first failure. Under ``skip`` it is raised for more
    than ``max_errors`` failures beside those that ``prepare`` listed, and when no image is left."""
    node, count, total = job.node, len(failures), job.table.num_rows
    if not count:
        return
    listed = job.table.filter(pc.equal(job.table["width"], 0))["image_id"].to_pylist()
    beyond, most = len(failures.keys() - set(listed)), limit(node, total)
    if node.on_error == "skip" and beyond <= most and count < total:
        return
    examples = [
        f"{row['file']} (image_id {row['image_id']}) {row['reason']}"
        for row in unreadable_table(job, failures).slice(0, _EXAMPLES).to_pylist()
    ]
    if node.on_error == "fail":
        advice = f"set on_error: skip in datasets.{node.dataset}"
        raise InputError(f"extract {name}: {examples[0]}; to leave such images out, {advice}")
    beside = f" beside {count - beyond} of prepare's" if beyond < count else ""
    allowed = f"max_errors {node.max_errors:g} allows {most}{beside}"
    reason = allowed if beyond > most else "none is left"
    raise InputError(f"extract {name}: {count} of {total} images cannot be read, {reason}: {'; '.join(examples)}")
