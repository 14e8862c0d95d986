"""Engine ``ray``: worker processes of a Ray cluster, on this machine or on many. Needs the extra
``ray``.

Workers compute, this process puts together and writes: there is one writer, and a worker that
outlives it can do no harm. What is computed is sent once for all workers of a node, with its arrays
in Ray's store; memory maps are opened again, so every node needs the project, the images and the
weights at the same paths.
"""

import contextlib
import hashlib
import mmap
import os
import platform
import signal
from collections.abc import Iterable, Iterator, Sized
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from vse_pipe.core import workers
from vse_pipe.core.errors import PipelineError, UsageError, first_line, missing_package, out_of_memory
from vse_pipe.core.workers import Stream
from vse_pipe.project.engines.options import LOCAL, EngineParams

# Blocks of each worker: it computes one while another waits, so that it never waits for this
# process.
_IN_FLIGHT = 2
# Blocks a worker at least, so that all end at about the same time.
_BLOCKS = 4
# A worker that dies is started again; its third death is the command's.
_RESTARTS = 2
# Seconds: a process that imports PyTorch from a slow disk beside others takes a minute.
_STARTS = 120
# Libraries that results depend on, where they are installed.
_LIBRARIES = {"torch", "numpy", "scipy", "pillow", "torchvision", "pyarrow", "transformers", "open_clip_torch"}
_MIB = 1 << 20


@contextlib.contextmanager
def opened(params: EngineParams, device: str) -> Iterator[None]:
    """``workers.run_parts`` asks workers that are started when it is first called, and end here.
    device: of each of them, as the command line names it. Raises MissingResource without Ray,
    UsageError for one GPU of many, which Ray deals out itself."""
    if device.startswith("cuda:"):
        raise UsageError(f"--device {device} and engine ray exclude each other: Ray gives each worker a GPU; give cuda")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise missing_package("engine ray", "ray") from error
    try:
        with workers.using(RayPool(ray, params, device)):
            yield
    finally:
        ray.shutdown()  # also of what was started before it failed


class RayPool:
    """As ``workers.Pool``. A worker that dies is started again, twice at most, and what it had to
    do is done again; it has as many threads as this process, on which the last bits of a result may
    depend."""

    def __init__(self, ray: ModuleType, params: EngineParams, device: str) -> None:
        self._ray, self._params, self._device = ray, params, device
        self._actors: list[Any] = []

    @property
    def count(self) -> int:
        return self._params.workers

    def block(self, parts: Iterable[Any], cost: int) -> int:
        """Parts that a worker gets at once: as many as fit its memory, and no more than leave all
        workers something to do; one where nobody knows what a part takes. Raises UsageError where
        the memory is too little for one."""
        room = self._params.memory * _MIB
        if cost > room:
            raise UsageError(
                f"engine.memory: {self._params.memory} MiB is too little for a worker's smallest "
                f"part of the work; give at least {-(-cost // _MIB)}"
            )
        share = len(parts) // (_BLOCKS * self.count) if isinstance(parts, Sized) else 1
        return max(1, min(room // cost, share)) if cost else 1

    def run(self, stream: Stream, parts: Iterable[Any], cost: int = 0, ordered: bool = True) -> Iterator[Any]:
        """Raises what a worker raises, UsageError for too little memory, and PipelineError when a
        worker does not start, cannot be kept alive or is another installation than this."""
        size, rest = self.block(parts, cost), iter(parts)
        with self._errors():
            if not self._actors:
                self._actors = self._started()
            program = self._ray.put(stream)
            pool = self._ray.util.ActorPool(self._actors * _IN_FLIGHT)
            run = pool.map if ordered else pool.map_unordered
            blocks = iter(lambda: list(islice(rest, size)), [])
            for results in run(lambda actor, block: actor.run.remote([program], block), blocks):
                yield from results

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        errors = self._ray.exceptions
        try:
            yield
        except errors.RayTaskError as error:
            if isinstance(error.cause, PipelineError | OSError) or out_of_memory(error.cause):
                raise error.cause from None
            raise PipelineError("a worker failed:", *str(error).splitlines()) from error
        except errors.RayError as error:
            raise PipelineError(f"Ray: a worker or its store ended ({first_line(error)})") from error

    def _started(self) -> list[Any]:
        import torch

        from vse_pipe.core import devices

        threads = torch.get_num_threads()
        _connect(self._ray, self._params, threads)
        self._ray.util.register_serializer(np.memmap, serializer=_placed, deserializer=_mapped)
        options = {
            "num_cpus": threads,
            "num_gpus": int(devices.resolve_device(self._device).type == "cuda"),
            "max_restarts": _RESTARTS,
            "max_task_retries": _RESTARTS,
        }
        worker, here = self._ray.remote(_Worker).options(**options), (str(Path.cwd()), threads, _installed())
        actors = [worker.remote(*here) for _ in range(self.count)]
        answers = [actor.__ray_ready__.remote() for actor in actors]
        if silent := self._ray.wait(answers, num_returns=self.count, timeout=_STARTS)[1]:
            raise PipelineError(
                f"{len(silent)} of {self.count} workers did not start in {_STARTS} s; `ray status` says "
                "what the cluster is busy with; give fewer engine.workers or try again later"
            )
        return actors


class _Worker:
    """installed: what this process must have, as ``_installed`` says of the one that asks it."""

    def __init__(self, folder: str, threads: int, installed: str) -> None:
        self.folder, self.threads, self.installed = folder, threads, installed
        self.program: Any = None
        self.stream: Any = None

    def run(self, program: list, parts: list) -> list:
        """The results of ``parts``. program: the reference, in a list for Ray."""
        import torch

        # Here and not in the constructor: what goes wrong there comes back as the death of the
        # worker.
        if program[0] != self.program:
            self._prepare(program[0])
        with torch.inference_mode():
            return list(self.stream(parts))

    def _prepare(self, program: Any) -> None:
        import ray
        import torch

        if self.installed != _installed():
            raise PipelineError(
                "a worker has other code, libraries or Python than the process that asks it; install the same on every node"
            )
        torch.set_num_threads(self.threads)
        os.chdir(self.folder)  # the project is at the same path on every node
        self.stream = None  # before the next one takes memory
        self.stream, self.program = ray.get(program), program


def _installed() -> str:
    """Digest of the code, of Python, and of the libraries that results depend on."""
    versions = {each.name.lower(): each.version for each in distributions()}
    libraries = sorted((name, versions.get(name, "")) for name in _LIBRARIES)
    digest = hashlib.sha256(f"{platform.python_version()} {libraries}".encode())
    for path in sorted(Path(__file__).parents[2].rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


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


def _placed(array: np.memmap) -> tuple | np.ndarray:
    """The place of a memory map in its file, for ``_mapped``; a copy for a view."""
    if not isinstance(array.base, mmap.mmap) or array.filename is None:
        return np.array(array)
    order = "C" if array.flags.c_contiguous else "F"
    return str(array.filename), array.dtype, "r", array.offset, array.shape, order


def _mapped(place: tuple | np.ndarray) -> np.ndarray:
    return place if isinstance(place, np.ndarray) else np.memmap(*place)
