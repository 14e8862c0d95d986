"""Freed memory stays with the process once it was asked for."""

import platform
import subprocess
import sys

import numpy as np
import pytest
import torch
from torchvision import models

from vse_pipe.core import devices
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import UsageError
from vse_pipe.extract.backbones.options import FeatureParams
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.networks import Extractor, without_classifier
from vse_pipe.pictures.transforms import Transform

_FAULTS = """
import resource
import torch
from vse_pipe.core import devices
{call}
for turn in range(24):
    if turn == 12:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_the_next_block_takes_the_pages_of_the_last() -> None:
    """64 MiB are written twelve times, once blocks have found their places: pages that the system clears, 4 KiB each or, where they are
    huge, 2 MiB."""
    kept, given_back = (
        int(subprocess.run([sys.executable, "-c", _FAULTS.format(call=call)], capture_output=True, text=True, check=True).stdout)
        for call in ("devices.keep_freed()", "")
    )  # fmt: skip
    assert kept < 16 < given_back


def test_auto_takes_a_gpu_when_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert resolve_device("auto") == torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")


def test_a_gpu_is_named_by_number(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert resolve_device("cuda") == torch.device("cuda")
    assert resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpu", "unknown device 'gpu'; known: auto, cpu, cuda, cuda:N"),
        ("cuda:", "unknown device 'cuda:'"),
        ("cuda:x", "unknown device 'cuda:x'"),
        ("", "unknown device ''"),
        ("cuda:2", "device 'cuda:2' is not there: this machine offers 2 CUDA devices"),
    ],
)
def test_names_that_are_refused(name, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UsageError, match=message):
        resolve_device(name)


CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({}, "float32"),
        ({"avx512_f": True}, "float32"),
        ({"amx_bf16": True}, "bfloat16"),
        ({"avx512_bf16": True}, "bfloat16"),
    ],
)
def test_auto_on_a_cpu(monkeypatch: pytest.MonkeyPatch, capabilities: dict, expected: str) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert devices.resolve_precision("auto", CPU) == expected


@pytest.mark.parametrize("native", [True, False])
def test_auto_on_a_gpu(monkeypatch: pytest.MonkeyPatch, native: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native or including_emulation)
    assert devices.resolve_precision("auto", GPU) == ("bfloat16" if native else "float32")


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_what_is_asked_for_is_done(name: str) -> None:
    assert devices.resolve_precision(name, CPU) == name


def test_bfloat16_features_point_where_float32_ones_do() -> None:
    torch.manual_seed(0)
    transform = Transform(64, 64, "exact", "bilinear", "center", (0.5,) * 3, (0.25,) * 3)
    module = Extractor(without_classifier(models.resnet18(), 1000), transform).eval()
    batch = np.random.default_rng(0).integers(0, 256, (8, 1, 64, 64, 3), dtype=np.uint8)
    found = {}
    for name in ("float32", "bfloat16"):
        with devices.inference(CPU, name):
            found[name] = Forward(module, FeatureParams(), CPU)(batch).features
    assert found["bfloat16"].dtype == np.float32
    assert not np.array_equal(found["bfloat16"], found["float32"])
    assert (found["bfloat16"] * found["float32"]).sum(1).min() >= 0.999


def test_nothing_of_it_stays() -> None:
    with devices.inference(CPU, "bfloat16"):
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")
    assert not torch.is_inference_mode_enabled()
