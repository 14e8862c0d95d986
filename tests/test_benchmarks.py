"""Every benchmark that can use a GPU takes the same option for it, and says in one line that the machine has none.
Small runs of those that call the pipeline's functions themselves."""

import pkgutil
import subprocess
import sys
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


SMALL = [
    "train steps --batch 8 --steps 2 --images 40 --vocabulary 100",
    "train processes --batch 8 --steps 2 --images 40 --vocabulary 100 --rounds 1",
    "train door --rounds 2",
    "evaluate door --images 50 --captions 250 --dim 16 --rounds 1",
    "extract throughput --backbone resnet152 --images 2 --batch 2 --rounds 1 --device cpu",
    "scale evaluate made --items 500 --dim 16 --inference nns",
    "gpu --device cpu --batch 4 --steps 2 --only bare captured rates",
]


@pytest.mark.acceptance
@pytest.mark.parametrize("command", SMALL, ids=[" ".join(command.split()[:2]) for command in SMALL])
def test_a_small_run_ends(command, tmp_path):
    name, *options = command.replace(" made ", f" {tmp_path} ").split()
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *options], cwd=measure.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()
