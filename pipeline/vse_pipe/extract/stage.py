"""extract: the features of every image of a data set, computed once and read by every run."""

import contextlib
import math
import re
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from vse_pipe.artifacts import features as artefact
from vse_pipe.core import locks
from vse_pipe.core.console import say, track
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.extract.job import Earlier, Job, Shard, plan, with_reused_rows
from vse_pipe.extract.shards import Shards, assemble
from vse_pipe.project import paths
from vse_pipe.project.params.nodes import LOCAL, EngineParams
from vse_pipe.project.params.typed import FeatureSet, Params

if TYPE_CHECKING:
    from vse_pipe.extract.compute import Computer


def extract(params: Params, features: str, device: str = "auto", share: str | None = None) -> Path:
    """Write data/extract/<dataset>/<features>/: features.npy with a row for each row of
    images.parquet, in its order.

    A call goes on where a killed one stopped and ends with the same bytes. It computes nothing when
    the same features exist, and only new pictures when features of other pictures do. share:
    ``i/n`` computes every n-th shard from the i-th on, and assembles nothing. Raises InputError
    (naming an image), MissingResource or IntegrityError (weights), UsageError, LockedError."""
    from vse_pipe.core import devices  # torch takes seconds to import

    started = time.monotonic()
    part = None if share is None else _part(share)
    node = params.features[features]
    out = paths.extracted(node.dataset, features)
    with locks.claim(out) if part is None else locks.share(out, part[0]):
        skips = params.datasets[node.dataset].on_error == "skip"
        job = replace(plan(node, params.seed, devices.resolve_device(device)), skips=skips)
        earlier = Earlier.read(out)
        if earlier is not None and earlier.is_of(job):
            require_allowed(job, earlier.failures, features)
            say(f"extract {features}: {out} is up to date{_unreadable(earlier.failures)}")
            return out
        job = with_reused_rows(job, earlier)
        shards = Shards(out, job)
        if part is None:
            shards.tidy()
        failures = _compute(job, shards, features, device, params.engine, part)
        if part is not None:
            say(
                f"extract {features}: share {share} is finished; when all are, "
                f"`vse-pipe extract --features {features}` puts them together"
            )
            return out
        assemble(job, shards, failures, out)
    rows = job.table.num_rows
    count = f"{rows - len(failures)} of {rows}" if failures else rows
    seconds = time.monotonic() - started
    paths.record_seconds(out, seconds)
    say(f"extract {features}: {count} images{_unreadable(failures)}, {seconds:.1f} s")
    return out


def _unreadable(failures: dict[int, str]) -> str:
    return f", {len(failures)} unreadable (see {artefact.INDEX})" if failures else ""


def _part(share: str) -> tuple[int, int]:
    """i and n of ``i/n``. Raises UsageError unless i is from 1 to n."""
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", share)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {share}: expected i/n with i from 1 to n, for example 1/4, 2/4, 3/4 and 4/4")
    return int(match[1]), int(match[2])


def _compute(
    job: Job, shards: Shards, name: str, device: str, engine: EngineParams, share: tuple[int, int] | None
) -> dict[int, str]:
    """Compute the missing shards of this process and write each when it is complete.

    Returns why images of all finished shards have no features, by image_id. Raises InputError when
    the node does not allow these failures."""
    total, finished = job.table.num_rows, shards.finished()
    failures = dict(chain.from_iterable(failed.items() for failed in finished.values()))
    require_allowed(job, failures, name)
    part, parts = share or (1, 1)
    numbers = range(part - 1, job.shard_count, parts)
    missing = [number for number in numbers if number not in finished]
    if len(job.todo) < total:
        say(f"extract {name}: {total - len(job.todo)} of {total} pictures computed before")
    if len(missing) < len(numbers):
        done = len(numbers) - len(missing)
        say(f"extract {name}: going on after {done} of {len(numbers)} shards")
    with contextlib.closing(computed_shards(job, missing, name, device, engine)) as results:
        for number, shard in results:
            failures |= shard.failures
            # A shard that is refused is computed again, because its picture may be repaired.
            require_allowed(job, failures, name)
            shards.write(number, shard)
    return failures


def require_allowed(job: Job, failures: dict[int, str], name: str) -> None:
    """Check the failures so far. name: of the features.

    Raises InputError for the first failure. If the job skips pictures, it is raised for more
    than ``max_errors`` failures beside those that ``prepare`` listed, and when no image is left."""
    node, count, total = job.node, len(failures), job.table.num_rows
    rows = job.table.filter(np.isin(job.table["image_id"].to_numpy(), list(failures)))
    listed = pc.sum(pc.equal(rows["width"], 0)).as_py() or 0
    most = int(node.max_errors) if node.max_errors >= 1 else math.ceil(node.max_errors * total)
    if not count or (job.skips and count - listed <= most and count < total):
        return
    first = rows.slice(0, 1).to_pylist()[0]
    example = f"{first['file']} (image_id {first['image_id']}) {failures[first['image_id']]}"
    if not job.skips:
        advice = f"set on_error: skip in datasets.{node.dataset}"
        raise InputError(f"extract {name}: {example}; to leave such images out, {advice}")
    of_prepare = f" beside {listed} of prepare's" if listed else ""
    allowed = f"max_errors {node.max_errors:g} allows {most}{of_prepare}"
    reason = allowed if count - listed > most else "none is left"
    raise InputError(f"extract {name}: {count} of {total} images cannot be read, {reason}: {example}")


def computed_shards(
    job: Job, numbers: list[int], name: str, device: str, engine: EngineParams
) -> Generator[tuple[int, Shard], None, None]:
    """Yield the shards of ``numbers``, each with its number, in the order in which they finish.
    name: of the features.

    The local engine has one network and decodes images in threads; Ray has a network in each
    worker. Raises what computing and Ray raise."""
    if not numbers:
        return
    if engine.name == LOCAL:
        from vse_pipe.core import devices
        from vse_pipe.extract.compute import Computer

        title = f"extract {name}, batches of {job.node.backbone.params.batch_size}"
        yield from Computer(job, devices.resolve_device(device)).shards(numbers, title)
        return
    from vse_pipe.project import ray

    task = _Task(name, job.node, job.seed, device, job.shards_digest)
    results = ray.computed(task, numbers, engine, device)
    yield from track(results, len(numbers), f"extract {name}, shards")


@dataclass
class _Task:
    """The work of one of Ray's workers, small enough to send: it builds the network by itself."""

    name: str
    node: FeatureSet
    seed: int
    device: str
    digest: str
    computer: "Computer | None" = None

    def __call__(self, numbers: Iterable[int]) -> Iterator[tuple[int, Shard]]:
        self.computer = self.computer or self._computer()
        return self.computer.shards(list(numbers))

    def _computer(self) -> "Computer":
        from vse_pipe.core import devices
        from vse_pipe.extract.compute import Computer

        device = devices.resolve_device(self.device)
        earlier = Earlier.read(paths.extracted(self.node.dataset, self.name))
        job = with_reused_rows(plan(self.node, self.seed, device), earlier)
        if job.shards_digest != self.digest:
            raise PipelineError("a worker has other weights, images or kind of device than the process that asks it")
        return Computer(job, device)
