"""extract: the features of every image of a data set, computed once and read by every run."""

import contextlib
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vse_pipe.artifacts import features as artefact
from vse_pipe.artifacts import images
from vse_pipe.core import workers
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError
from vse_pipe.core.files import read_json, require_ours
from vse_pipe.extract.assemble import OURS, assemble, require_allowed
from vse_pipe.extract.job import Job, Shard, digest_of, plan, with_reused_rows
from vse_pipe.extract.shards import Shards, remove
from vse_pipe.extract.work import Work
from vse_pipe.project import paths
from vse_pipe.project.engines.options import LOCAL, EngineParams
from vse_pipe.project.params.typed import FeatureSet, Params
from vse_pipe.project.registry import ENGINES

if TYPE_CHECKING:
    from vse_pipe.extract.compute import Computer


def extract(params: Params, features: str, device: str = "auto", work: Work | None = None) -> Path:
    """Write data/extract/<dataset>/<features>/: features.npy with a row for each row of images.parquet, in its order.

    A call goes on where a killed one stopped and ends with the same bytes. It computes nothing when
    the same features exist, and only new pictures when features of other pictures do. work: how
    the shards are spread over processes; with a share, only its shards are computed and nothing is
    assembled. Raises InputError (naming an image), MissingResource or IntegrityError (weights),
    UsageError, LockedError."""
    from vse_pipe.core import devices  # torch, after a second writer has been refused

    started = time.monotonic()
    work = work or Work()
    node = params.features[features]
    out = paths.extracted(node.dataset, features)
    with work.lock(out):
        require_ours(out, OURS)
        job = plan(node, params.seed, devices.resolve_device(device))
        finished = _finished(job, out)
        if finished is not None:
            require_allowed(job, finished, features)
            if work.share is None:
                remove(out)
            say(f"extract {features}: {out} is up to date{_unreadable(finished)}")
            return out
        _say_preparation(job, features)
        job = with_reused_rows(job, out)
        shards = Shards(out, job)
        if work.share is None:
            shards.tidy()
        failures = _computed(job, shards, out, device, work)
        if work.share:
            _say_share(job, shards, features, work.share)
            return out
        assemble(job, shards, failures, out)
        remove(out)
    rows = job.table.num_rows
    count = f"{rows - len(failures)} of {rows}" if failures else rows
    seconds = time.monotonic() - started
    say(f"extract {features}: {count} images{_unreadable(failures)}, {seconds:.1f} s")
    if failures:
        where = out / images.UNREADABLE
        warn(f"extract {features}: {len(failures)} images have no features; {where} says why")
    return out


def _finished(job: Job, out: Path) -> dict[int, str] | None:
    """Why images of the finished features in ``out`` have none, by image_id; None without these features."""
    if not (out / artefact.META).is_file():
        return None
    try:
        meta = read_json(out / artefact.META)
        if {meta.get("fingerprint"), digest_of(artefact.about(meta))} != {job.digest}:
            return None
        artefact.read(out)
        table = images.read_unreadable(out)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; doing so now")
        return None
    return dict(zip(table["image_id"].to_pylist(), table["reason"].to_pylist(), strict=True))


def _unreadable(failures: dict[int, str]) -> str:
    return f", {len(failures)} unreadable" if failures else ""


def _say_preparation(job: Job, name: str) -> None:
    """Say what params.yaml leaves open: the precision, and how pictures are scaled for weights in a file."""
    options, weights = job.node.backbone.params, job.about.get("weights", {})
    if getattr(options, "precision", "") == "auto":
        say(f"extract {name}: precision auto is {job.about['precision']} on this machine")
    if weights.get("origin") == "file" and None in (getattr(options, "mean", 0), getattr(options, "std", 0)):
        say(f"extract {name}: set mean and std if {weights['file']} has others than the published weights")


def _computed(job: Job, shards: Shards, out: Path, device: str, work: Work) -> dict[int, str]:
    """Compute the missing shards of this process and write each when it is complete.

    Returns why images of all finished shards have no features. Raises InputError when the node
    does not allow these failures."""
    name, failures = out.name, shards.failures()
    require_allowed(job, failures, name)
    numbers, finished = work.numbers(job.count), shards.files()
    missing = [number for number in numbers if number not in finished]
    if job.reused is not None:
        total = job.table.num_rows
        say(f"extract {name}: {total - len(job.todo)} of {total} pictures computed before")
    if len(missing) < len(numbers):
        done = len(numbers) - len(missing)
        say(f"extract {name}: going on after {done} of {len(numbers)} shards")
    started = time.monotonic()
    results = computed_shards(job, missing, name, device, work.engine)
    try:
        with contextlib.closing(results):
            for number, shard in results:
                shards.write(number, shard)
                failures |= shard.failures
                require_allowed(job, failures, name)
    except KeyboardInterrupt:
        say(f"extract {name}: {len(shards.files())} of {job.count} shards are finished and kept")
        raise
    finally:
        paths.record_seconds(out, time.monotonic() - started, earlier=bool(finished))
    return failures


def _say_share(job: Job, shards: Shards, name: str, share: tuple[int, int]) -> None:
    missing = job.count - len(shards.files())
    say(
        f"extract {name}: share {share[0]}/{share[1]} is finished, {missing} of {job.count} shards "
        f"are missing; when none is, `vse-pipe extract --features {name}` puts them together"
    )


def computed_shards(
    job: Job, numbers: list[int], name: str, device: str, engine: EngineParams
) -> Generator[tuple[int, Shard], None, None]:
    """Yield the shards of ``numbers``, each with its number, in the order in which they finish. name: of the features.

    The local engine has one network and decodes images in threads; other engines have a network in
    each worker. Raises what computing and the engine raise."""
    if not numbers:
        return
    if engine.name == LOCAL:
        from vse_pipe.core import devices
        from vse_pipe.extract.compute import Computer

        title = f"extract {name}, batches of {job.node.backbone.params.batch_size}"
        yield from Computer(job, devices.resolve_device(device)).shards(numbers, title)
        return
    task = _Task(name, job.node, job.seed, device, job.shards_digest)
    with ENGINES.load(engine.name).opened(engine, device):
        results = workers.run_parts(task, numbers, ordered=False)
        yield from track(results, len(numbers), f"extract {name}, shards")


@dataclass
class _Task:
    """The work of an engine's worker, small enough to send: the worker builds the network and reads the images."""

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
        out = paths.extracted(self.node.dataset, self.name)
        job = with_reused_rows(plan(self.node, self.seed, device), out)
        if job.shards_digest != self.digest:
            raise PipelineError("a worker has other weights, images or kind of device than the process that asks it")
        return Computer(job, device)
