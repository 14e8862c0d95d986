"""bfloat16 where it is native, close to float32 where it is asked for."""

import numpy as np
import pytest
import torch
from torchvision import models

from vse_pipe.core import devices
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.networks import Extractor, without_classifier
from vse_pipe.extract.params import FeatureParams
from vse_pipe.pictures.transforms import Transform

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
