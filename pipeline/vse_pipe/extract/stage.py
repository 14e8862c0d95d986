"""extract: the features of every image of a data set, computed once and read by every run."""

import contextlib
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from vse_pipe.artifacts import features as artefact
from vse_pipe.artifacts import images
from vse_pipe.core import workers
from vse_pipe.core.console import say, track, warn
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError
from vse_pipe.core.files import read_json, require_ours
from vse_pipe.extract import assemble
from vse_pipe.extract.job import Damaged, Failure, Job, Shard, Shards, digest_of, plan
from vse_pipe.extract.work import Work
from vse_pipe.project import paths
from vse_pipe.project.engines.options import LOCAL, EngineParams
from vse_pipe.project.params.typed import FeatureSet, Params
from vse_pipe.project.registry import ENGINES

if TYPE_CHECKING:
    from vse_pipe.extract.compute import Computer


def extract(params: Params, features: str, device: str = "auto", work: Work | None = None) -> Path:
    """Write data/extract/<dataset>/<features>/: features.npy with a row for each row of images.parquet, in its order.

    A call goes on where a killed one stopped and ends with the same bytes. It returns at once when the same features
    exist. work: how the shards are spread over processes; with a share, only its shards are computed and nothing is
    assembled. Raises InputError (naming an image), MissingResource or IntegrityError (weights), UsageError,
    LockedError."""
    started = time.monotonic()
    work = work or Work()
    node = params.features[features]
    out = paths.extracted(node.dataset, features)
    with work.lock(out):
        if _is_up_to_date(out, node, params.seed, device, features, work):
            return out
        from vse_pipe.core import devices

        require_ours(out, assemble.OURS)
        job = assemble.with_reused_rows(plan(node, params.seed, devices.resolve_device(device)), out)
        if getattr(node.backbone.params, "precision", "") == "auto":
            say(f"extract {features}: precision auto is {job.about['precision']} on this machine")
        _say_preparation(features, job)
        shards = assemble.shards_of(job, out)
        if job.reused is not None:
            say(f"extract {features}: {job.reused.count} of {job.table.num_rows} pictures computed before")
        if work.share:
            _compute_share(job, shards, features, device, work)
            return out
        shards.tidy()
        if not _finished(out, job.digest):
            _complete(job, shards, out, features, device, work)
        Shards(out, "").remove()
        left_out = images.read_unreadable(out)
        assemble.require_allowed(node, left_out, job.table.num_rows, features)
    rows = job.table.num_rows
    count = f"{rows - left_out.num_rows} of {rows}" if left_out.num_rows else rows
    say(f"extract {features}: {count} images{_unreadable(left_out)}, {time.monotonic() - started:.1f} s")
    if left_out.num_rows:
        warn(
            f"extract {features}: {left_out.num_rows} images have no features; {out / images.UNREADABLE} names them and says why"
        )
    return out


def _say_preparation(name: str, job: Job) -> None:
    """Say how pictures are prepared for a network with weights, and who says so: weights in a file do not."""
    options, about = job.node.backbone.params, job.about
    if not hasattr(options, "mean"):
        return
    used = about.get("transform", about)
    size = f"{used['image_size']} x {used['image_size']} pixels, " if "image_size" in used else ""
    numbers = f"mean {_spaced(used['mean'])}, std {_spaced(used['std'])}"
    chosen = [option for option in ("mean", "std") if getattr(options, option) is not None]
    if len(chosen) == 2:
        origin = "as params.yaml says"
    elif about["weights"]["origin"] == "file":
        rest = " and ".join(option for option in ("mean", "std") if option not in chosen)
        origin = f"{rest} of the published weights, which may not be those of {about['weights']['file']}"
    else:
        origin = "as these weights were published"
    say(f"extract {name}: {size}{numbers} ({origin})")


def _spaced(values: Sequence[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def _is_up_to_date(out: Path, node: FeatureSet, seed: int, device: str, name: str, work: Work) -> bool:
    """Return whether ``out`` holds the same features, as far as this can be decided without the network.

    Shards that a killed call left beside finished features are removed."""
    meta = out / artefact.META
    if not meta.is_file():
        return False
    try:
        about = artefact.about(read_json(meta))
    except InputError:
        return False  # reported when the features are computed again
    if not assemble.is_settled(about, node, seed, device) or not _finished(out, digest_of(about)):
        return False
    left_out = images.read_unreadable(out)
    if left_out.num_rows:
        readable = len(artefact.read(out, verify=False).image_ids)
        assemble.require_allowed(node, left_out, left_out.num_rows + readable, name)
    say(f"extract {name}: {out} is up to date{_unreadable(left_out)}")
    if work.share is None:
        Shards(out, "").remove()
    return True


def _unreadable(left_out: pa.Table) -> str:
    return f", {left_out.num_rows} unreadable" if left_out.num_rows else ""


def _finished(out: Path, digest: str) -> bool:
    if not (out / artefact.META).is_file():
        return False
    try:
        meta = read_json(out / artefact.META)
        if meta.get("fingerprint") != digest or digest_of(artefact.about(meta)) != digest:
            return False
        artefact.read(out)
        images.read_unreadable(out)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; doing so now")
        return False
    return True


def _complete(job: Job, shards: Shards, out: Path, name: str, device: str, work: Work) -> None:
    """Compute the missing shards and put all together; damaged shards are computed once more."""
    if not shards.files() and job.reused is None:
        paths.record_seconds(out, 0.0)
    while True:
        _compute(job, shards, name, device, work, out)
        if _assembled(job, shards, out, name):
            return


def _assembled(job: Job, shards: Shards, out: Path, name: str) -> bool:
    _check(job, _failures(shards, shards.files()), name)
    try:
        assemble.assemble(job, shards, out)
    except Damaged as error:
        warn(f"{error}; computing shard {error.number} again")
        shards.drop(error.number)
        return False
    return True


def _compute_share(job: Job, shards: Shards, name: str, device: str, work: Work) -> None:
    assert work.share is not None
    _compute(job, shards, name, device, work)
    number, count = work.share
    missing = job.count - len(shards.files())
    say(
        f"extract {name}: share {number}/{count} is finished, {missing} of {job.count} shards are missing; when none is, "
        f"`vse-pipe extract --features {name}` puts them together"
    )


def _compute(job: Job, shards: Shards, name: str, device: str, work: Work, timed: Path | None = None) -> None:
    """Compute the missing shards of this process and write each when it is complete. timed: folder of the seconds."""
    numbers, files = work.numbers(job.count), shards.files()
    missing = [number for number in numbers if number not in files]
    if len(missing) < len(numbers):
        say(f"extract {name}: going on after {len(numbers) - len(missing)} of {len(numbers)} shards")
    failures = _failures(shards, files)
    _check(job, failures, name)
    if not missing:
        return
    started = time.monotonic()
    results = computed_shards(job, missing, name, device, work.engine)
    try:
        with contextlib.closing(results):
            for number, shard in results:
                shards.write(number, shard, job.manifest(number))
                if shard.failures:
                    failures[number] = shard.failures
                    _check(job, failures, name)
                started = _lap(timed, started) if timed else started
    except KeyboardInterrupt:
        say(f"extract {name}: {len(shards.files())} of {job.count} shards are finished and kept")
        raise


def _check(job: Job, failures: dict[int, list[Failure]], name: str) -> None:
    """Raises InputError when the node does not allow these failures."""
    assemble.require_allowed(
        job.node, assemble.unreadable_table(job, sorted(failures.items())), job.table.num_rows, name
    )


def _failures(shards: Shards, files: dict[int, Path]) -> dict[int, list[Failure]]:
    """The failures of shards with a file, by the number of the shard."""
    failures = {}
    for number, path in files.items():
        with contextlib.suppress(Damaged):  # computed again when all are put together
            failures[number] = shards.manifest(number, path)["failures"]
    return failures


def _lap(out: Path, since: float) -> float:
    now = time.monotonic()
    paths.record_seconds(out, now - since, earlier=True)
    return now


def computed_shards(
    job: Job, numbers: list[int], name: str, device: str, engine: EngineParams
) -> Generator[tuple[int, Shard], None, None]:
    """Yield the shards of ``numbers``, each with its number, in the order in which they finish. name: of the features.

    The local engine has one network and decodes images in threads; other engines have a network in each worker. Raises
    what computing and the engine raise."""
    if engine.name == LOCAL:
        from vse_pipe.core import devices
        from vse_pipe.extract.compute import Computer

        title = f"extract {name}, batches of {job.node.backbone.params.batch_size}"
        yield from Computer(job, devices.resolve_device(device)).shards(numbers, title)
        return
    task = _Task(name, job.node, job.seed, device, job.shards_digest)
    with ENGINES.load(engine.name).opened(engine, device):
        yield from track(workers.run_parts(task, numbers, ordered=False), len(numbers), f"extract {name}, shards")


class _Task:
    """The work of an engine's worker, small enough to send: the worker builds the network and reads the images."""

    def __init__(self, name: str, node: FeatureSet, seed: int, device: str, digest: str) -> None:
        self.name, self.node, self.seed, self.device, self.digest = name, node, seed, device, digest
        self.computer: Computer | None = None

    def __call__(self, numbers: Iterable[int]) -> Iterator[tuple[int, Shard]]:
        self.computer = self.computer or self._computer()
        return self.computer.shards(list(numbers))

    def _computer(self) -> "Computer":
        from vse_pipe.core import devices
        from vse_pipe.extract.compute import Computer

        device = devices.resolve_device(self.device)
        out = paths.extracted(self.node.dataset, self.name)
        job = assemble.with_reused_rows(plan(self.node, self.seed, device), out)
        if job.shards_digest != self.digest:
            raise PipelineError(
                "a worker has other weights or images, or another kind of device, than the process that asks it; they must be the same on every node"
            )
        return Computer(job, device)
