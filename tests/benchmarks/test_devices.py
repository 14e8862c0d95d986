"""Benchmarks of what a GPU can do are asked for one in the same way, and say so where there is none."""

import time
from importlib import import_module

import pytest
import torch

from tests.benchmarks import devices

ARGUMENTS = {
    "cascade": ["one", "other"],
    "precision": ["one", "other", "--run", "sum", "--out", "out"],
}
ALONE = ["evaluate", "fragments", "localize", "pooling", "processes", "schemes", "search", "size", "train"]


@pytest.mark.parametrize("name", [*ARGUMENTS, *ALONE])
def test_a_gpu_that_is_not_there_ends_a_benchmark_with_one_line(name, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [name, *ARGUMENTS.get(name, []), "--device", "cuda:99"])
    with pytest.raises(SystemExit, match="2"):
        import_module(f"tests.benchmarks.{name}").main()
    last = capsys.readouterr().err.splitlines()[-1]
    count = torch.cuda.device_count()
    expected = f"device 'cuda:99' is not there: this machine offers {count} CUDA devices; use auto or cpu"
    assert last == f"{name}: error: argument --device: {expected}"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU, which works on while Python goes ahead")
def test_seconds_are_those_of_the_gpu():
    left = torch.randn(8192, 8192, device="cuda")
    work = lambda: [left @ left for _ in range(20)]  # noqa: E731
    devices.seconds(work, time.perf_counter)
    started = time.perf_counter()
    work()
    asked = time.perf_counter() - started
    assert devices.seconds(work, time.perf_counter) > 2 * asked
