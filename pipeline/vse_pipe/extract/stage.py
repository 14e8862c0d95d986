"""extract: the features of every image of a data set, computed once and read by every run."""

import contextlib
import time
from pathlib import Path

import pyarrow as pa

from vse_pipe.artifacts import features as artefact
from vse_pipe.artifacts import images
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, require_ours, sha256
from vse_pipe.extract import job, recognise
from vse_pipe.extract.assemble import OURS, about_now, assemble, growing, shards_of
from vse_pipe.extract.backbone import Failure
from vse_pipe.extract.job import Job, known, plan
from vse_pipe.extract.shards import Damaged, Shards
from vse_pipe.extract.spread import shards as computed
from vse_pipe.extract.work import Work
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet, Params


def extract(params: Params, features: str, device: str = "auto", work: Work | None = None) -> Path:
    """Write data/extract/<dataset>/<features>/: features.npy with a row for each row of images.parquet, in its order.

    Goes on where a killed call stopped and ends with the same bytes; returns at once when the same features are there
    already. work: how it is spread; of a share only its shards are computed, and nothing is assembled. Raises InputError
    (an image, named), MissingResource or IntegrityError (weights), UsageError, LockedError.
    """
    started = time.monotonic()
    work = work or Work()
    node = params.features[features]
    out = paths.extracted(node.dataset, features)
    with work.lock(out):
        if _there(out, node, params.seed, device, features, work):
            return out
        from vse_pipe.core import devices

        require_ours(out, OURS)
        job = growing(plan(node, params.seed, devices.resolve_device(device)), out)
        if getattr(node.backbone.params, "precision", "") == "auto":
            say(f"extract {features}: precision auto is {job.about['precision']} on this machine")
        shards = shards_of(job, out)
        _say_reused(job, features)
        if work.share:
            _compute_share(job, shards, features, device, work)
            return out
        shards.tidy()
        if not _finished(out, job.digest):
            _complete(job, shards, out, features, device, work)
        _clear(out)
        left_out = images.read_unreadable(out)
        recognise.check(node, left_out, job.table.num_rows, features)
    said = (
        f"{job.table.num_rows - left_out.num_rows} of {job.table.num_rows}" if left_out.num_rows else job.table.num_rows
    )
    say(f"extract {features}: {said} images{_unreadable(left_out)}, {time.monotonic() - started:.1f} s")
    if left_out.num_rows:
        warn(
            f"extract {features}: {left_out.num_rows} images have no features; {out / images.UNREADABLE} names them and says why"
        )
    return out


def finish(params: Params, features: str, device: str = "auto", work: Work | None = None) -> bool:
    """Whether the features are there now: they were, or all their shards are there and have been put together. Of a share:
    whether the features or all of its shards are there.

    Builds no network and reads nothing of ``params`` but the seed and the entry itself. Raises LockedError, InputError for
    more unreadable images than the entry allows, PipelineError when the disk is too full to put the shards together.
    """
    work = work or Work()
    node = params.features[features]
    out = paths.extracted(node.dataset, features)
    with work.lock(out):
        if _there(out, node, params.seed, device, features, work):
            return True
        source = paths.prepared(node.dataset) / images.NAME
        for about in about_now(out, sha256(source)) if source.is_file() else ():
            if recognise.settled(about, node, params.seed, device):
                job = known(node, params.seed, about)
                if _all_there(growing(job, out, verify=False), out, work):
                    job = growing(job, out)
                    settle = _settle if work.share is None else _settle_share
                    if _all_there(job, out, work) and settle(job, shards_of(job, out), features, out, work):
                        return True
    return False


def _all_there(job: Job, out: Path, work: Work) -> bool:
    return set(work.mine(job.count)) <= shards_of(job, out).found().keys()


def _settle(job: Job, shards: Shards, name: str, out: Path, work: Work) -> bool:
    """Put together shards that are all there. False when one of them turns out to be damaged."""
    started = time.monotonic()
    shards.tidy()
    if not _assembled(job, shards, out, name):
        return False
    _lap(out, started)
    _say_reused(job, name)
    say(
        f"extract {name}: {job.count} shards were there, put together in {out}{_unreadable(images.read_unreadable(out))}"
    )
    return True


def _say_reused(job: Job, name: str) -> None:
    if job.reused is not None:
        say(f"extract {name}: {job.reused.count} of {job.table.num_rows} pictures computed before")


def _settle_share(job: Job, shards: Shards, name: str, out: Path, work: Work) -> bool:
    _check(job, _failures(shards, shards.found()), name)
    _say_shared(job, shards, name, work)
    return True


def _clear(out: Path) -> None:
    """Remove what a call that was killed after its last file still had to remove."""
    Shards(out, "").remove()


def _there(out: Path, node: FeatureSet, seed: int, device: str, name: str, work: Work) -> bool:
    """Are the same features there, and nothing else? As far as that can be told without the network."""
    meta = out / artefact.META
    if not meta.is_file():
        return False
    try:
        about = artefact.about(read_json(meta))
    except InputError:
        return False  # said where the whole of it is looked at, and made again
    if not recognise.settled(about, node, seed, device) or not _finished(out, job.digest(about)):
        return False
    left_out = images.read_unreadable(out)
    if left_out.num_rows:
        readable = len(artefact.read(out, verify=False).image_ids)
        recognise.check(node, left_out, left_out.num_rows + readable, name)
    say(f"extract {name}: {out} is up to date{_unreadable(left_out)}")
    if work.share is None:
        _clear(out)
    return True


def _unreadable(left_out: pa.Table) -> str:
    return f", {left_out.num_rows} unreadable" if left_out.num_rows else ""


def _finished(out: Path, digest: str) -> bool:
    if not (out / artefact.META).is_file():
        return False
    try:
        meta = read_json(out / artefact.META)
        if meta.get("fingerprint") != digest or job.digest(artefact.about(meta)) != digest:
            return False
        artefact.read(out)
        images.read_unreadable(out)
    except (InputError, IntegrityError) as error:
        warn(f"{error}; doing so now")
        return False
    return True


def _complete(job: Job, shards: Shards, out: Path, name: str, device: str, work: Work) -> None:
    """Compute the shards that are missing and put all together; once more for those that turn out to be damaged."""
    if not shards.found() and job.reused is None:
        paths.record_seconds(out, 0.0)
    while True:
        _compute(job, shards, name, device, work, out)
        if _assembled(job, shards, out, name):
            return


def _assembled(job: Job, shards: Shards, out: Path, name: str) -> bool:
    _check(job, _failures(shards, shards.found()), name)
    try:
        assemble(job, shards, out)
    except Damaged as error:
        warn(f"{error}; computing shard {error.number} again")
        shards.drop(error.number)
        return False
    return True


def _compute_share(job: Job, shards: Shards, name: str, device: str, work: Work) -> None:
    if others := shards.others():
        warn(
            f"{others[0]} and {len(others) - 1} more hold shards of other extractions: other options, code, libraries, weights "
            "or device; all processes that share one extraction need the same"
        )
    _compute(job, shards, name, device, work)
    _say_shared(job, shards, name, work)


def _say_shared(job: Job, shards: Shards, name: str, work: Work) -> None:
    assert work.share is not None
    number, of = work.share
    left = job.count - len(shards.found())
    say(
        f"extract {name}: share {number}/{of} is finished, {left} of {job.count} shards are missing; when none is, "
        f"`vse-pipe extract --features {name}` puts them together"
    )


def _compute(job: Job, shards: Shards, name: str, device: str, work: Work, timed: Path | None = None) -> None:
    """Compute what is missing of this process's shards, each written as soon as it is whole. timed: keeps the seconds."""
    mine, there = work.mine(job.count), shards.found()
    missing = [number for number in mine if number not in there]
    if len(missing) < len(mine):
        say(f"extract {name}: going on after {len(mine) - len(missing)} of {len(mine)} shards")
    failures = _failures(shards, there)
    _check(job, failures, name)
    if not missing:
        return
    started = time.monotonic()
    made = computed(job, missing, name, device, work.engine)
    try:
        with contextlib.closing(made):
            for number, shard in made:
                shards.write(number, shard, job.manifest(number))
                if shard.failures:
                    failures[number] = shard.failures
                    _check(job, failures, name)
                started = _lap(timed, started) if timed else started
    except KeyboardInterrupt:
        say(f"extract {name}: {len(shards.found())} of {job.count} shards are finished and kept")
        raise


def _check(job: Job, failures: dict[int, list[Failure]], name: str) -> None:
    """Raises InputError when the node does not allow these failures."""
    recognise.check(job.node, recognise.named(job, sorted(failures.items())), job.table.num_rows, name)


def _failures(shards: Shards, there: dict[int, Path]) -> dict[int, list[Failure]]:
    """Of the shards that are there, by number."""
    found = {}
    for number, path in there.items():
        with contextlib.suppress(Damaged):  # computed again when all are put together
            found[number] = shards.manifest(number, path)["failures"]
    return found


def _lap(out: Path, since: float) -> float:
    now = time.monotonic()
    paths.record_seconds(out, now - since, earlier=True)
    return now
