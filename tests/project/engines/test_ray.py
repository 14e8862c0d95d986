"""The engine ray on this machine: every byte is the same."""

import contextlib
import gc
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.rules.sources import ROOT
from vse_pipe.core import workers
from vse_pipe.core.errors import InputError, MissingResource, PipelineError, UsageError
from vse_pipe.project.engines import ray
from vse_pipe.project.engines.options import EngineParams

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason='Ray is not installed (80 MB): pip install "vse-pipe[ray]"'
)
# Ray leaves sockets open when it is shut down, and warns of its own defaults.
pytestmark = pytest.mark.filterwarnings("ignore")
MIB = 1 << 20


def pool(**options: object) -> ray.RayPool:
    return ray.RayPool(ModuleType("ray"), EngineParams(name="ray", **options), "cpu")


def test_a_worker_gets_what_its_memory_takes_and_all_get_something() -> None:
    parts = list(range(1000))
    assert pool(workers=2, memory=64).block(parts, 8 * MIB) == 8
    assert pool(workers=2, memory=64).block(parts, 64 * MIB) == 1
    with pytest.raises(UsageError, match=r"engine.memory: 64 MiB is too little .*; give at least 65"):
        pool(workers=2, memory=64).block(parts, 64 * MIB + 1)
    assert pool(workers=2, memory=4096).block(range(80), MIB) == 10
    assert pool(workers=50, memory=4096).block(range(80), MIB) == 1
    assert pool(workers=2).block(iter(range(80)), MIB) == 1
    assert pool(workers=2).block(range(80), 0) == 1


def test_what_cannot_be_opened_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingResource, match=r"engine ray .*: pip install ray"),
        ray.opened(EngineParams(name="ray"), "cpu"),
    ):
        raise AssertionError("opened")
    refused = pytest.raises(UsageError, match="--device cuda:1 and engine ray exclude each other")
    with refused, ray.opened(EngineParams(name="ray"), "cuda:1"):
        raise AssertionError("opened")


class Squares:
    """of: squares; what else it does to whoever asks it is said by files of that name in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, parts: Iterable[int]) -> Iterator[tuple[int, int]]:
        for part in parts:
            if (place := self.folder / f"dies at {part}").exists():
                left = int(place.read_text())
                place.write_text(str(left - 1))
                if left:
                    os.kill(os.getpid(), signal.SIGKILL)
            if (self.folder / f"fails at {part}").exists():
                raise InputError(f"part {part} cannot be used")
            (self.folder / f"did {part} {time.monotonic_ns()}").touch()
            yield part * part, os.getpid()

    def done(self) -> list[int]:
        return sorted(int(path.name.split()[1]) for path in self.folder.glob("did *"))


@contextlib.contextmanager
def opened(count: int) -> Iterator[None]:
    terminated = signal.getsignal(signal.SIGTERM)
    try:
        with ray.opened(EngineParams(name="ray", workers=count, memory=1), "cpu"):
            try:
                assert list(workers.run_parts(list, [7])) == [7]
                assert signal.getsignal(signal.SIGTERM) is terminated
            except PipelineError as error:
                if "no Ray cluster at local" not in str(error):
                    raise
                pytest.skip(f"Ray gives up where others keep the machine busy: {error}")
            yield
    finally:
        gc.collect()  # its sockets, while warnings of them are ignored


@pytest.fixture(scope="module")
def three() -> Iterator[None]:
    with opened(3):
        yield


def squares(folder: Path, count: int, cost: int = 0) -> list[int]:
    found = list(workers.run_parts(Squares(folder), range(count), cost))
    assert os.getpid() not in {process for _, process in found}
    return [value for value, _ in found]


@needs_ray
@pytest.mark.acceptance
def test_the_third_death_of_a_worker_ends_the_command(tmp_path: Path) -> None:
    # Before the tests with ``three``, which stays open: a process has one cluster.
    (tmp_path / "dies at 3").write_text("3")
    with opened(2), pytest.raises(PipelineError) as caught:
        squares(tmp_path, 8)
    assert str(caught.value).startswith("Ray: a worker or its store ended (")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_status == 1


@needs_ray
@pytest.mark.acceptance
def test_results_come_in_order_and_a_worker_that_dies_does_its_part_again(three: None, tmp_path: Path) -> None:
    wanted = [one * one for one in range(40)]
    assert squares(tmp_path, 40) == wanted == squares(tmp_path, 40, MIB // 2)
    (tmp_path / "dies at 17").write_text("2")
    assert squares(tmp_path, 40) == wanted
    assert (tmp_path / "dies at 17").read_text() == "-1"


@needs_ray
@pytest.mark.acceptance
def test_an_error_of_a_worker_is_the_error_of_the_command(three: None, tmp_path: Path) -> None:
    (tmp_path / "fails at 5").touch()
    with pytest.raises(InputError, match=r"^part 5 cannot be used$"):
        squares(tmp_path, 40)
    assert max(Squares(tmp_path).done()) < 40 - 12  # no more is asked for


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["elsewhere", pytest.param("ray", marks=needs_ray)])
def test_all_that_is_written_is_the_same_also_if_one_of_three_workers_is_killed(kind: str) -> None:
    command = [sys.executable, "-m", "tests.project.engines.projects", kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
