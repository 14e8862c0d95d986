"""Workers of a Ray cluster, on this machine or on many, for extraction. Needs the extra ``ray``.

Workers compute, this process puts together and writes: there is one writer, and a worker that
outlives it can do no harm. A worker reads images and weights by itself, so every node needs the
project and them at the same paths.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from vse_pipe.core.errors import PipelineError, UsageError, first_line, missing_package, out_of_memory
from vse_pipe.project.params.nodes import LOCAL, EngineParams

# Shards of each worker: it computes one while another waits, so that it never waits for this
# process.
_IN_FLIGHT = 2
# A worker that dies is started again; its third death is the command's.
_RESTARTS = 2
# Seconds: a process that imports PyTorch from a slow disk beside others takes a minute.
_STARTS = 120
Work = Callable[[Iterable[int]], Iterator[Any]]


def computed(work: Work, numbers: Iterable[int], params: EngineParams, device: str) -> Iterator[Any]:
    """What ``work([number])`` gives for each number, as it is finished.

    A worker that dies is started again, twice at most, and what it had to do is done again; it has
    as many threads as this process, on which the last bits of a result may depend. device: of each
    worker, as the command line names it. Raises what a worker raises, MissingResource without Ray,
    UsageError for one GPU of many, which Ray deals out itself, and PipelineError when a worker does
    not start or cannot be kept alive."""
    if device.startswith("cuda:"):
        raise UsageError(f"--device {device} and engine ray exclude each other: Ray gives each worker a GPU; give cuda")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise missing_package("engine ray", "ray") from error
    try:
        with _errors(ray.exceptions):
            pool: Any = ray.util.ActorPool(_started(ray, work, params, device) * _IN_FLIGHT)
            yield from pool.map_unordered(lambda actor, number: actor.run.remote(number), numbers)
    finally:
        ray.shutdown()  # also of what was started before it failed


@contextlib.contextmanager
def _errors(errors: Any) -> Iterator[None]:
    """errors: ``ray.exceptions``."""
    try:
        yield
    except errors.RayTaskError as error:
        if isinstance(error.cause, PipelineError | OSError) or out_of_memory(error.cause):
            raise error.cause from None
        raise PipelineError("a worker failed:", *str(error).splitlines()) from error
    except errors.RayError as error:
        raise PipelineError(f"Ray: a worker or its store ended ({first_line(error)})") from error


def _started(ray: ModuleType, work: Work, params: EngineParams, device: str) -> list[Any]:
    import torch

    from vse_pipe.core import devices

    threads = torch.get_num_threads()
    _connect(ray, params, threads)
    options = {
        "num_cpus": threads,
        "num_gpus": int(devices.resolve_device(device).type == "cuda"),
        "max_restarts": _RESTARTS,
        "max_task_retries": _RESTARTS,
    }
    worker = ray.remote(_Worker).options(**options)
    actors = [worker.remote(work, str(Path.cwd()), threads) for _ in range(params.workers)]
    answers = [actor.__ray_ready__.remote() for actor in actors]
    if silent := ray.wait(answers, num_returns=params.workers, timeout=_STARTS)[1]:
        raise PipelineError(
            f"{len(silent)} of {params.workers} workers did not start in {_STARTS} s; `ray status` says "
            "what the cluster is busy with; give fewer engine.workers or try again later"
        )
    return actors


class _Worker:
    """folder: the project's, at the same path on every node."""

    def __init__(self, work: Work, folder: str, threads: int) -> None:
        self.work, self.folder, self.threads = work, folder, threads

    def run(self, number: int) -> Any:
        import torch

        # Here and not in the constructor: what goes wrong there comes back as the death of the
        # worker.
        torch.set_num_threads(self.threads)
        os.chdir(self.folder)
        return next(self.work([number]))


def _connect(ray: ModuleType, params: EngineParams, threads: int) -> None:
    options = {}
    if params.address == LOCAL:
        # Whoever reaches Ray's ports can run code: a cluster of our own listens to this machine
        # alone.
        options = {"num_cpus": params.workers * threads, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=params.address, log_to_driver=False, logging_level="error", **options)
    except Exception as error:  # Ray raises what it likes, that class too
        raise PipelineError(f"no Ray cluster at {params.address}: {' '.join(str(error).split())}") from error
    finally:
        signal.signal(signal.SIGTERM, terminated)  # which Ray takes
