"""extract: the features of every image of a data set, computed once and read by every run."""

import contextlib
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline import device as devices
from pipeline import paths, timing
from pipeline.artifacts import features as artefact
from pipeline.artifacts._files import read_json
from pipeline.console import say, track, warn
from pipeline.errors import InputError, IntegrityError
from pipeline.extract import precision
from pipeline.extract.backbones._backbone import Item, Output
from pipeline.extract.forward import Forward, joined
from pipeline.extract.job import Job, plan
from pipeline.extract.parts import Parts
from pipeline.extract.reader import batches
from pipeline.locks import claim
from pipeline.params.typed import Params

_AHEAD_OF_A_GPU = 4


def extract(params: Params, features: str, device: str = "auto") -> Path:
    """Write data/extract/<dataset>/<features>/: features.npy with a row for each row of images.parquet, in its order.

    Goes on where a killed call stopped and ends with the same bytes; returns at once when the same features are
    there already. Raises InputError (an image, named), MissingResource or IntegrityError (weights), UsageError.
    """
    started = time.monotonic()
    node = params.features[features]
    out = paths.extracted(node.dataset, features)
    with claim(out):
        _tidy(out)
        job = plan(node, params.seed, devices.resolve(device))
        parts = Parts(out, job.digest)
        if _finished(out, job.digest):
            parts.remove()
            say(f"extract {features}: {out} is up to date")
            return out
        _compute(job, parts, out, features, started)
        _assemble(job, parts, out)
    count = sum(map(len, job.blocks))
    say(f"extract {features}: {count} images, {time.monotonic() - started:.1f} s")
    return out


def _tidy(out: Path) -> None:
    """Remove what a killed call was writing; the lock is ours, so nobody is writing it now."""
    for path in out.glob(".*.tmp"):
        path.unlink()


def _finished(out: Path, digest: str) -> bool:
    if not (out / artefact.META).is_file() or read_json(out / artefact.META).get("fingerprint") != digest:
        return False
    try:
        artefact.read(out)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; doing so now")
        return False
    return True


def _compute(job: Job, parts: Parts, out: Path, name: str, started: float) -> None:
    """Compute the parts that are missing, each written as soon as it is whole."""
    done = parts.open()
    if done:
        say(f"extract {name}: going on after {len(done)} of {len(job.blocks)} parts")
    else:
        timing.record(out, 0.0)
    work = job.batches(skip=done)
    # A GPU must not wait for readers. On a CPU readers and model need the same cores: working at once is no faster than
    # taking turns and costs up to 7 % more of their time (measured on 2 cores).
    ahead = _AHEAD_OF_A_GPU if job.device.type == "cuda" else 0
    forward = Forward(job.backbone.module.to(job.device), job.params, job.device)
    reading = batches([items for _, items in work], partial(job.backbone.read, job.root), ahead)
    rows: list[Output] = []
    with contextlib.closing(reading), precision.inference(job.device, job.about["precision"]):
        pairs = zip(work, reading, strict=True)
        for (number, items), batch in track(
            pairs, len(work), f"extract {name}, batches of {job.params.batch_size}"
        ):
            rows.append(_finite(forward(batch.arrays), batch.items))
            if items[-1] is job.blocks[number][-1]:
                parts.write(number, joined(rows, np.concatenate))
                rows = []
                started = _lap(out, started)


def _lap(out: Path, since: float) -> float:
    now = time.monotonic()
    timing.record(out, now - since, earlier=True)
    return now


def _finite(rows: Output, items: list[Item]) -> Output:
    for name, values in rows._asdict().items():
        if values is None:
            continue
        bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
        if len(bad):
            item = items[bad[0]]
            advice = "; if float16 is too narrow for them, set store: float32 or normalise: true"
            raise InputError(
                f"{item.where}: the {name} of image_id {item.image_id} are NaN or infinite as {values.dtype}"
                f"{advice if name == 'features' else ''}"
            )
    return rows


def _assemble(job: Job, parts: Parts, out: Path) -> None:
    ids = [item.image_id for block in job.blocks for item in block]
    count = len(ids)
    numbers = range(len(job.blocks))
    columns = {"image_id": ids, "row": list(range(count)), "status": ["ok"] * count, "detail": [""] * count}
    for name in artefact.BESIDE:
        found = [array for number in numbers if (array := parts.read(number, name)) is not None]
        columns[name] = artefact.lists(np.concatenate(found)) if found else [None] * count
    blocks = (parts.read(number, "features") for number in numbers)
    index = pa.table(columns, artefact.SCHEMA)
    artefact.write_blocks(out, blocks, count, index, {**job.about, "fingerprint": job.digest})
    parts.remove()
