"""Workers of a Ray cluster, on a stand-in for Ray: tests/extract/test_share.py has Ray itself."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from vse_pipe.core.errors import MissingResource, PipelineError, UsageError
from vse_pipe.project import ray
from vse_pipe.project.params.nodes import EngineParams


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
        self.util = SimpleNamespace(ActorPool=_Actors)

    def init(self, **options: object) -> None:
        signal.signal(signal.SIGTERM, raised_in_ray)

    def shutdown(self) -> None: ...

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

    def map_unordered(self, ask: Callable[[Any, Any], Any], values: Iterable[Any]) -> Iterator[Any]:
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


def computed(monkeypatch: pytest.MonkeyPatch, work: Callable, parts: Iterable[int], device="cpu", silent=0) -> list:
    """What two workers of the stand-in compute."""
    monkeypatch.setitem(sys.modules, "ray", Standin(silent))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    return list(ray.computed(work, parts, EngineParams(name="ray", workers=2), device))


def doubled(parts: Iterable[int]) -> Iterator[int]:
    return (2 * part for part in parts)


def test_workers_do_each_part_and_errors_are_those_of_the_command(monkeypatch, tmp_path: Path) -> None:
    def mine(number: int, frame: object) -> None: ...

    signal.signal(signal.SIGTERM, mine)
    assert computed(monkeypatch, doubled, range(50)) == list(doubled(range(50)))
    assert signal.getsignal(signal.SIGTERM) is mine
    with pytest.raises(PipelineError, match=r"^1 of 2 workers did not start in 120 s; .* fewer engine.workers .*$"):
        computed(monkeypatch, doubled, [1], silent=1)

    def read(parts: Iterable[int]) -> Iterator[str]:
        return ((tmp_path / "none.jpg").read_text() for _ in parts)

    with pytest.raises(FileNotFoundError) as caught:
        computed(monkeypatch, read, [1])
    assert caught.value.filename == str(tmp_path / "none.jpg")

    def full(parts: Iterable[int]) -> Iterator[int]:
        raise ZeroDivisionError

    with pytest.raises(PipelineError, match="a worker failed"):
        computed(monkeypatch, full, [1])

    def lost(*args: object) -> None:
        raise RayError("the store is full\nof objects")

    monkeypatch.setattr(_Actors, "map_unordered", lost)
    with pytest.raises(PipelineError, match=r"^Ray: .* store ended \(the store is full\)$"):
        computed(monkeypatch, doubled, [1])


def test_a_node_without_the_project_is_named(monkeypatch, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shares = ray.computed(doubled, [1], EngineParams(name="ray", workers=2), "cpu")
    monkeypatch.setitem(sys.modules, "ray", Standin())
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError):
        list(shares)


def test_what_cannot_be_opened_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--device cuda:1 and engine ray exclude each other"):
        computed(monkeypatch, doubled, [1], device="cuda:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingResource, match=r"engine ray .*: pip install ray"):
        list(ray.computed(doubled, [1], EngineParams(name="ray"), "cpu"))
