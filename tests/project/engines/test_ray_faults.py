"""Faults of a Ray cluster, on a stand-in for Ray."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from vse_pipe.core.errors import PipelineError
from vse_pipe.project.engines import ray
from vse_pipe.project.engines.options import EngineParams


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
    """silent: workers that never start."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, silent: int = 0) -> None:
        super().__init__("ray")
        self.silent = silent
        self.util = SimpleNamespace(register_serializer=lambda *args, **kinds: None, ActorPool=_Actors)

    def init(self, **options: object) -> None:
        signal.signal(signal.SIGTERM, raised_in_ray)

    def put(self, value: object) -> object:
        return SimpleNamespace(get=lambda: value)

    def get(self, reference: Any) -> Any:
        return reference.get()

    def wait(self, references: list, num_returns: int, timeout: float | None = None) -> tuple[list, list]:
        ready = num_returns - (self.silent if timeout else 0)
        return references[:ready], references[ready:]

    def remote(self, kind: type) -> Any:
        start = SimpleNamespace(remote=lambda *args: _Actor(kind(*args)))
        return SimpleNamespace(options=lambda **options: start)


class _Actor:
    def __init__(self, inside: Any) -> None:
        self.run = SimpleNamespace(remote=lambda *args: _Task(lambda: inside.run(*args)))
        self.__ray_ready__ = SimpleNamespace(remote=lambda: _Task(lambda: True))


class _Actors:
    """``ray.util.ActorPool``"""

    def __init__(self, actors: list) -> None:
        self.actors = actors

    def map(self, ask: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
        for number, value in enumerate(values):
            yield ask(self.actors[number % len(self.actors)], value).get()


class _Task:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work

    def get(self) -> Any:
        try:
            return self.work()
        except Exception as error:
            raise RayTaskError(error) from error


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    kept = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, kept)


def pool(monkeypatch: pytest.MonkeyPatch, workers: int = 2, device: str = "cpu", **cluster: Any) -> ray.RayPool:
    standin = Standin(**cluster)
    monkeypatch.setitem(sys.modules, "ray", standin)
    return ray.RayPool(standin, EngineParams(name="ray", workers=workers), device)


def doubled(parts: Iterable[int]) -> list[int]:
    return [2 * part for part in parts]


def test_as_many_workers_as_can_be_placed_work_and_their_errors_are_those_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    asked = pool(monkeypatch, 3)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    assert list(asked.run(doubled, range(50))) == doubled(range(50))

    def own(number: int, frame: object) -> None: ...

    signal.signal(signal.SIGTERM, own)
    assert list(pool(monkeypatch).run(doubled, [1])) == [2]
    assert signal.getsignal(signal.SIGTERM) is own
    asked = pool(monkeypatch, 3, silent=1)
    for _ in range(2):  # whoever asks again waits again
        with pytest.raises(PipelineError, match=r"^1 of 3 workers did not start in 120 s; .* fewer engine.workers .*$"):
            list(asked.run(doubled, [1]))

    def read(parts: Iterable[str]) -> list[str]:
        return [Path(part).read_text() for part in parts]

    with pytest.raises(FileNotFoundError) as caught:
        list(pool(monkeypatch).run(read, [str(tmp_path / "none.jpg")]))
    assert caught.value.filename == str(tmp_path / "none.jpg")
    asked = pool(monkeypatch)

    def full(value: object) -> None:
        raise RayError("the store is full\nof objects")

    monkeypatch.setattr(asked._ray, "put", full)
    with pytest.raises(PipelineError, match=r"^Ray: .* store ended \(the store is full\)$"):
        list(asked.run(doubled, [1]))


def test_a_node_without_the_project_or_of_another_python_is_named(monkeypatch, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    asked = pool(monkeypatch)
    asked._actors = asked._started()
    os.chdir(tmp_path)
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError, match=str(folder)):
        list(asked.run(doubled, [1]))
    asked = pool(monkeypatch)
    asked._actors = asked._started()
    monkeypatch.setattr("platform.python_version", lambda: "3.1")
    with pytest.raises(PipelineError, match="a worker has other code, libraries or Python than the process"):
        list(asked.run(doubled, [1]))
