"""Engine ``ray``: worker processes of a Ray cluster, on this machine or on many. Needs the extra ``ray``.

Workers compute, this process writes: there is one writer, and a worker that outlives it can do no harm. Every node needs
the project's folder, the images and the weights at the same path.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.core.console import track
from pipeline.core.errors import MissingResource, PipelineError
from pipeline.extract.engine.job import Job, plan
from pipeline.extract.engine.reuse import growing
from pipeline.extract.engine.shards import Shard
from pipeline.extract.engine.work import Work
from pipeline.project import paths

if TYPE_CHECKING:
    from pipeline.extract.engine.compute import Computer

# Of every worker: one shard that it computes and one that waits, so that it never waits for this process.
_IN_FLIGHT = 2
_RETRIES = 3
_STORE_BYTES = 2**30


def shards(job: Job, numbers: list[int], name: str, device: str, work: Work) -> Iterator[tuple[int, Shard]]:
    """Each of ``numbers`` with its shard, in the order in which they are finished.

    A worker that dies is started again, three times at most. Raises what a worker raises, PipelineError when it cannot be
    kept alive or has other code, libraries or weights than this process, MissingResource without Ray.
    """
    import torch

    ray = _connected(work, torch.get_num_threads())
    try:
        options = {
            "num_cpus": torch.get_num_threads(),
            "num_gpus": 1 if job.about["device"] == "cuda" else 0,
            "max_restarts": _RETRIES,
            "max_task_retries": _RETRIES,
        }
        given = (str(Path.cwd()), name, job.node, job.seed, device, job.shards_digest, torch.get_num_threads())
        count = min(work.workers, len(numbers))
        actors = [ray.remote(_Worker).options(**options).remote(*given) for _ in range(count)]
        yield from track(_finished(ray, actors, numbers), len(numbers), f"extract {name}, shards")
    finally:
        ray.shutdown()


def _finished(ray, actors: list, numbers: list[int]) -> Iterator[tuple[int, Shard]]:
    """At most ``_IN_FLIGHT`` shards a worker are asked for and not yet taken: memory does not grow with the images."""
    waiting, asked = iter(numbers), {}
    for actor in actors * _IN_FLIGHT:
        if (number := next(waiting, None)) is not None:
            asked[actor.shard.remote(number)] = (number, actor)
    while asked:
        done = ray.wait(list(asked), num_returns=1)[0][0]
        number, actor = asked.pop(done)
        shard = _result(ray, done, number)
        if (following := next(waiting, None)) is not None:
            asked[actor.shard.remote(following)] = (following, actor)
        del done  # while the reference lives, so does the shard in Ray's store
        yield number, shard


def _result(ray, reference, number: int) -> Shard:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, PipelineError):
            raise error.cause from None
        raise PipelineError(f"a worker failed at shard {number}; finished shards are kept:\n{error}") from error
    except ray.exceptions.RayError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise PipelineError(
            f"a worker ended at shard {number} ({reason}); finished shards are kept, the same command goes on"
        ) from error


class _Worker:
    """threads: as many as the process has that asks, because the last bits of features may depend on them."""

    def __init__(self, folder: str, name: str, node, seed: int, device: str, digest: str, threads: int) -> None:
        self.given, self.digest, self.folder, self.threads = (node, seed), digest, folder, threads
        self.out = paths.extracted(node.dataset, name)
        self.device = device
        self.computer: Computer | None = None

    def shard(self, number: int) -> Shard:
        # The network is built here: what goes wrong in a constructor comes back as the death of the worker.
        self.computer = self.computer or self._computer()
        return next(self.computer.shards([number]))[1]

    def _computer(self) -> "Computer":
        import torch

        from pipeline.core import device as devices
        from pipeline.extract.engine.compute import Computer

        torch.set_num_threads(self.threads)
        os.chdir(self.folder)
        device = devices.resolve(self.device)
        job = growing(plan(*self.given, device), self.out)
        if job.shards_digest != self.digest:
            raise PipelineError(
                "a worker has other code, libraries, weights or images, or another kind of device, than the process that asks "
                "it; install the same on every node"
            )
        return Computer(job, device)


def _connected(work: Work, threads: int):
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingResource(
            'engine ray needs the extra "ray": pip install "vse-pipe[ray]"; without it, share the work with --shard i/n'
        ) from error
    own = {}
    if work.address == "local":
        # Whoever reaches Ray's ports can run code: a cluster of our own listens to this machine alone.
        own = {
            "num_cpus": work.workers * threads,
            "object_store_memory": _STORE_BYTES,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    try:
        ray.init(address=work.address, log_to_driver=False, logging_level="warning", **own)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise PipelineError(f"no Ray cluster at {work.address}: {error}") from error
    return ray
