"""The engine ray on this machine: every byte is the same."""

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest

from tests.rules.sources import ROOT
from vse_pipe.core.errors import MissingResource, UsageError
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


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["elsewhere", pytest.param("ray", marks=needs_ray)])
def test_all_that_is_written_is_the_same_also_if_one_of_three_workers_is_killed(kind: str) -> None:
    command = [sys.executable, "-m", "tests.project.engines.projects", kind]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
