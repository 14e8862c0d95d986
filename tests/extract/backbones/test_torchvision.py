"""torchvision's classifiers, and networks without their classifiers."""

import inspect
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import models
from torchvision.models.regnet import BlockParams

from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UnknownMember, UsageError
from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.backbones.options import TorchvisionOptions as Params
from vse_pipe.extract.backbones.torchvision import build
from vse_pipe.extract.networks import Extractor, dimensions, without_classifier
from vse_pipe.pictures.images import Transform

# With the length of their features.
FAMILIES = {
    "alexnet": 4096,
    "convnext_tiny": 768,
    "densenet121": 1024,
    "efficientnet_b0": 1280,
    "efficientnet_v2_s": 1280,
    "googlenet": 1024,
    "inception_v3": 2048,
    "maxvit_t": 512,
    "mnasnet0_5": 1280,
    "mobilenet_v2": 1280,
    "mobilenet_v3_small": 1024,
    "regnet_y_400mf": 440,
    "resnet18": 512,
    "resnet50": 2048,
    "resnext50_32x4d": 2048,
    "shufflenet_v2_x1_0": 1024,
    "squeezenet1_1": 512,
    "swin_t": 768,
    "swin_v2_t": 768,
    "vgg11_bn": 4096,
    "vit_b_32": 768,
    "wide_resnet50_2": 2048,
}


@pytest.fixture
def on_meta(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No memory and no arithmetic; RegNet computes its widths with tensors, which needs values."""
    widths = BlockParams.from_init_params.__func__

    def on_the_cpu(cls, *args, **options):
        with torch.device("cpu"):
            return widths(cls, *args, **options)

    monkeypatch.setattr(BlockParams, "from_init_params", classmethod(on_the_cpu))
    with torch.device("meta"), torch.inference_mode():
        yield


def shape(name: str) -> tuple[int, ...]:
    found = networks.torchvision_classifier(name, ImageParams(weights="random"), {})
    size = found.published.image_size
    return tuple(found.strip(found.make()).eval()(torch.empty(2, 3, size, size)).shape)


@pytest.mark.acceptance
@pytest.mark.usefixtures("on_meta")
def test_a_vector_an_image() -> None:
    assert {name: shape(name) for name in FAMILIES} == {name: (2, dim) for name, dim in FAMILIES.items()}


def test_classifiers_of_every_class_are_among_them() -> None:
    made = {name: inspect.signature(models.get_model_builder(name)).return_annotation for name in networks.names()}
    assert {made[name] for name in FAMILIES} == set(made.values())


def test_every_published_file_names_its_digest() -> None:
    wrong = []
    for name in networks.names():
        for entry in models.get_model_weights(name):
            found = networks.torchvision_classifier(name, ImageParams(weights=entry.name), {})
            source = (found.source.url, found.published.image_size)
            if source != (entry.url, entry.transforms().crop_size[0]) or len(found.source.digest) < 8:
                wrong.append(f"{name} {entry.name}")
    assert wrong == []


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "squeezenet1_1"])
def test_random_features_are_finite(folder: Path, name: str) -> None:
    backbone = build(Params(model=name, weights="random", image_size=64), seed=1)
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 1, 64, 64, 3), dtype=np.uint8))
    with torch.inference_mode():
        found = backbone.module(pixels)
    assert found.shape == (2, backbone.about["dimensions"])
    assert torch.isfinite(found).all()
    assert not torch.equal(found[0], found[1])


def test_a_file_is_loaded_strictly(folder: Path) -> None:
    torch.save(models.squeezenet1_1().state_dict(), "own.pth")
    backbone = build(Params(model="squeezenet1_1", weights="own.pth", image_size=64), seed=1)
    assert backbone.about["weights"]["origin"] == "file"
    with pytest.raises(
        InputError, match=r"own.pth does not fit ResNet: missing: conv1.weight, .* and 118 more; unexpected: "
    ):
        build(Params(model="resnet18", weights="own.pth", image_size=64), seed=1)


def test_other_numbers_of_classes(folder: Path) -> None:
    torch.save(models.squeezenet1_1(num_classes=5).state_dict(), "own.pth")
    options = {"model": "squeezenet1_1", "weights": "own.pth", "image_size": 64}
    assert build(Params(**options, model_args={"num_classes": 5}), seed=1).about["dimensions"] == 512
    with pytest.raises(InputError, match=r"shapes: classifier.1.weight is 5x512x1x1, expected 1000x512x1x1"):
        build(Params(**options), seed=1)


def test_densenets_published_names_are_translated() -> None:
    model = models.densenet121()
    old = {
        name.replace("norm1", "norm.1").replace("conv2", "conv.2"): value for name, value in model.state_dict().items()
    }
    found = networks.torchvision_classifier("densenet121", ImageParams(), {}).rename(old, model)
    assert found.keys() == model.state_dict().keys()
    assert old.keys() != found.keys()


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"model": "resnet125"}, UnknownMember, "unknown torchvision model 'resnet125'; did you mean 'resnet152'"),
    ({"model": "fasterrcnn_resnet50_fpn"}, UnknownMember, "unknown torchvision model 'fasterrcnn_resnet50_fpn'"),
    ({"model": "resnet18", "weights": "IMAGENET1K_V3"}, UnknownMember,
     "no weights 'IMAGENET1K_V3'; did you mean 'IMAGENET1K_V1'"),
    ({"model": "alexnet", "weights": "random", "image_size": 16}, UsageError,
     "torchvision alexnet does not take images of 16 pixels"),
    ({"model": "alexnet", "weights": "random", "model_args": {"width": 2}}, UsageError,
     r"does not take model_args \{'width': 2\}"),
])  # fmt: skip
def test_refuses(folder: Path, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        build(Params(**options), seed=1)


def test_weights_that_cannot_be_had_are_never_random(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(url: str):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("torch.hub.urlopen", unreachable)
    with pytest.raises(
        MissingResource, match=r"cannot download https://download.pytorch.org/models/resnet18-f37072fd.pth"
    ):
        build(Params(model="resnet18"), seed=1)
    path = folder / "weights" / "resnet18-f37072fd.pth"
    torch.save(models.resnet18().state_dict(), path)
    with pytest.raises(IntegrityError, match=r"resnet18-f37072fd.pth: sha256 is [0-9a-f]{64}, expected f37072fd"):
        build(Params(model="resnet18"), seed=1)


def test_the_global_generator_is_not_touched(folder: Path) -> None:
    state = torch.random.get_rng_state()
    build(Params(model="squeezenet1_1", weights="random", image_size=64), seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)


TRANSFORM = Transform(8, 8, "exact", "bilinear", "center", (0.5,) * 3, (0.25,) * 3)


def test_the_last_layer_gives_way() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10))
    images = torch.randn(2, 4)
    expected = model[:2](images)
    assert torch.equal(without_classifier(model, 10)(images), expected)


def test_another_last_layer_is_refused() -> None:
    with pytest.raises(UsageError, match="Sequential: its last layer '0' has 3 outputs, not 1000 classes"):
        without_classifier(nn.Sequential(nn.Linear(4, 3)), 1000)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Conv2d(3, 5, 9), "toy does not take images of 8 pixels: .*[Kk]ernel size"),
        (nn.Conv2d(3, 5, 3), r"toy gives features of shape \(5, 6, 6\) for an image, expected one vector"),
    ],
)
def test_a_network_that_gives_no_vector_is_refused(net: nn.Module, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dimensions(Extractor(net, TRANSFORM), 8, "toy")


def test_dimensions() -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten())
    assert dimensions(Extractor(net, TRANSFORM), 8, "toy") == 180
