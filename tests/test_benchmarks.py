"""Every benchmark that can use a GPU takes the same option for it, and says in one line that the machine has none."""

import pkgutil
from importlib import import_module

import pytest
import torch

import benchmarks
from benchmarks import measure

for file in pkgutil.iter_modules(benchmarks.__path__, f"{benchmarks.__name__}."):
    import_module(file.name)
WITH_DEVICE = [names for names, (_, options) in measure.BENCHMARKS.items() if "device" in options]


@pytest.mark.parametrize(("module", "name"), WITH_DEVICE)
def test_a_missing_gpu_ends_a_benchmark_with_one_line(module, name, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [module, name, "--device", "cuda:99"])
    with pytest.raises(SystemExit, match="2"):
        measure.run(module)
    last = capsys.readouterr().err.splitlines()[-1]
    count = torch.cuda.device_count()
    expected = f"device 'cuda:99' is not there: this machine has {count} cuda devices; use auto or cpu"
    assert last == f"{module} {name}: error: argument --device: {expected}"
