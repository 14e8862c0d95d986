"""The module ``ray`` as far as the engine calls it: actors live in this process and do their work when it is asked for."""

import signal
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any


class RayError(Exception):
    """``ray.exceptions.RayError``"""


class RayTaskError(RayError):
    """``ray.exceptions.RayTaskError``"""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"Traceback of {cause!r}")
        self.cause = cause


def raised_in_ray(number: int, frame: object) -> None:
    """What ``ray.init`` puts in place of the handler of SIGTERM."""


class Standin(ModuleType):
    """resources: of the cluster; silent: workers that never start."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    util = SimpleNamespace(register_serializer=lambda *args, **kinds: None)

    def __init__(self, resources: dict[str, float] | None = None, silent: int = 0) -> None:
        super().__init__("ray")
        self.resources, self.silent = resources or {"CPU": 64.0}, silent
        self.running = False
        self.cancelled: list[Any] = []

    def init(self, **options: object) -> None:
        signal.signal(signal.SIGTERM, raised_in_ray)
        self.running = True

    def is_initialized(self) -> bool:
        return self.running

    def shutdown(self) -> None:
        self.running = False

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def put(self, value: object) -> object:
        return SimpleNamespace(get=lambda: value)

    def get(self, reference: Any) -> Any:
        return reference.get()

    def wait(self, references: list, num_returns: int, timeout: float | None = None) -> tuple[list, list]:
        ready = num_returns - (self.silent if timeout else 0)
        return references[:ready], references[ready:]

    def cancel(self, reference: object) -> None:
        assert self.running, "cancel starts a cluster"
        self.cancelled.append(reference)

    def remote(self, kind: type) -> Any:
        start = SimpleNamespace(remote=lambda *args: _Actor(kind(*args)))
        return SimpleNamespace(options=lambda **options: start)


class _Actor:
    def __init__(self, inside: Any) -> None:
        self.run = SimpleNamespace(remote=lambda *args: _Task(lambda: inside.run(*args)))
        self.__ray_ready__ = SimpleNamespace(remote=lambda: _Task(lambda: True))


class _Task:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work

    def get(self) -> Any:
        try:
            return self.work()
        except Exception as error:
            raise RayTaskError(error) from error
