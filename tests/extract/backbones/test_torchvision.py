"""Published classifiers: torchvision's and timm's by name, those of one kind, and networks without their classifiers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from torch import nn
from torchvision import models

from tests.extract.project import NOTHING
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UnknownMember, UsageError
from vse_pipe.extract import networks
from vse_pipe.extract.backbones import inception_resnet_v2, resnet152, torchvision, vgg19
from vse_pipe.extract.backbones import timm as timm_backbone
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.backbones.options import TimmOptions as TimmParams
from vse_pipe.extract.backbones.options import TorchvisionOptions as Params
from vse_pipe.extract.backbones.torchvision import build
from vse_pipe.project.registry import BACKBONES


def shape(classifier: Callable, name: str) -> tuple[int, ...]:
    found = classifier(name, ImageParams(weights="random"), {})
    size = found.published.image_size
    return tuple(found.strip(found.make()).eval()(torch.empty(2, 3, size, size)).shape)


# Of timm, with the length of their features.
NAMES = {
    "resnet18": 512, "mobilenetv3_small_050": 1024, "mobilenet_edgetpu_100": 1280, "vit_tiny_patch16_224": 192,
    "convnext_atto": 320, "levit_128s": 384, "deit_tiny_distilled_patch16_224": 192,
    "swin_tiny_patch4_window7_224": 768, "mixer_s32_224": 512,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_an_image_of_timm(name: str) -> None:
    with torch.device("meta"), torch.inference_mode():
        assert shape(networks.timm_classifier, name) == (2, NAMES[name])


def test_every_published_file_names_its_digest() -> None:
    wrong = []
    for name in models.list_models(module=models):
        for entry in models.get_model_weights(name):
            found = networks.torchvision_classifier(name, ImageParams(weights=entry.name), {})
            source = (found.source.url, found.published.image_size)
            if source != (entry.url, entry.transforms().crop_size[0]) or len(found.source.digest) < 8:
                wrong.append(f"{name} {entry.name}")
    assert wrong == []


def pixels() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 1, 64, 64, 3), dtype=np.uint8))


@pytest.mark.parametrize(("member", "model", "arguments", "dim", "message"), [
    (torchvision, lambda: models.squeezenet1_1(num_classes=5), {"num_classes": 5}, 512,
     r"classifier.1.weight: .*\[5, 512, 1, 1\].*\[1000, 512, 1, 1\]"),
    (timm_backbone, lambda: timm.create_model("mobilenetv3_small_050", num_classes=7),
     {"num_classes": 7, "pad_type": "same"}, 1024, r"classifier.weight: .*\[7, 1024\].*\[1000, 1024\]"),
], ids=["torchvision", "timm"])  # fmt: skip
def test_a_file_for_other_arguments_needs_them(folder: Path, member, model, arguments, dim, message) -> None:
    torch.save(model().state_dict(), "own.pth")
    name = "squeezenet1_1" if member is torchvision else "mobilenetv3_small_050"
    options = {"model": name, "weights": "own.pth", "image_size": 64}
    assert member.build(member.Params(**options, model_args=arguments), seed=1).about["dimensions"] == dim
    with pytest.raises(InputError, match=f"size mismatch for {message}"):
        member.build(member.Params(**options), seed=1)


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"model": "resnet1888"}, UnknownMember, "unknown timm model 'resnet1888'; did you mean 'resnet18"),
    ({"model": "vit_base_patch16_224.augreg2_in21k_ft_in1k"}, UsageError,
     "set sha256 to the digest its publisher gives"),
    ({"model": "vit_tiny_patch16_224", "weights": "random", "image_size": 96}, UsageError,
     "timm vit_tiny_patch16_224 does not take images of 96 pixels"),
])  # fmt: skip
def test_timm_refuses(folder: Path, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        timm_backbone.build(TimmParams(**options), seed=1)


def test_densenets_published_names_are_translated() -> None:
    model = models.densenet121()
    old = {name.replace("norm1", "norm.1").replace("conv2", "conv.2"): one for name, one in model.state_dict().items()}
    found = networks.torchvision_classifier("densenet121", ImageParams(), {}).rename(old, model)
    assert found.keys() == model.state_dict().keys()
    assert old.keys() != found.keys()


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"model": "resnet125"}, UnknownMember, "unknown torchvision model 'resnet125'; did you mean 'resnet152'"),
    ({"model": "resnet18", "weights": "IMAGENET1K_V3"}, UnknownMember, "no weights .*; did you mean 'IMAGENET1K_V1'"),
    ({"model": "squeezenet1_1", "weights": "random", "image_size": 16}, UsageError,
     "torchvision squeezenet1_1 does not take images of 16 pixels"),
    ({"model": "resnet18", "weights": "random", "model_args": {"wide": 2}}, UsageError,
     r"does not take model_args \{'wide': 2\}"),
])  # fmt: skip
def test_refuses(folder: Path, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        build(Params(**options), seed=1)


def test_weights_that_cannot_be_had_are_never_random(folder: Path, no_network) -> None:
    with pytest.raises(UsageError, match="random weights have no file"):
        build(Params(model="resnet18", weights="random", sha256="0" * 64), seed=1)
    message = r"cannot download https://download.pytorch.org/models/resnet18-f37072fd.pth"
    with pytest.raises(MissingResource, match=message):
        build(Params(model="resnet18"), seed=1)
    torch.save({}, folder / "weights" / "resnet18-f37072fd.pth")
    with pytest.raises(IntegrityError, match=r"resnet18-f37072fd.pth: sha256 is [0-9a-f]{64}, expected f37072fd"):
        build(Params(model="resnet18"), seed=1)


CLASSIFIERS = "https://download.pytorch.org/models"


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> list:
    """What ``build`` hands over, without building sixty million random numbers."""
    given: list = []
    monkeypatch.setattr(networks, "backbone_of", lambda *all_of_it: given.append(all_of_it) or NOTHING)
    return given


@pytest.mark.parametrize(("name", "options", "url", "seen"), [
    ("resnet152", {}, f"{CLASSIFIERS}/resnet152-f82ba261.pth", (224, 256, "bilinear", "center")),
    ("resnet152", {"weights": "IMAGENET1K_V1"}, f"{CLASSIFIERS}/resnet152-394f9c45.pth", None),
    ("vgg19", {"crops": "ten"}, f"{CLASSIFIERS}/vgg19-dcbb9e9d.pth", (224, 256, "bilinear", "ten")),
    ("inception_resnet_v2", {"weights": "random"}, None, (299, 333, "bicubic", "center")),
])  # fmt: skip
def test_weights_and_transform(assembled: list, name: str, options: dict, url: str | None, seen: tuple | None) -> None:
    params = BACKBONES.options(name)(**options)
    BACKBONES.load(name).build(params, 3)
    classifier, given, seed = assembled[0]
    assert (given, seed, params.normalise) == (params, 3, True)
    assert classifier.source == url or classifier.source.url == url
    found = networks.resolve(params, classifier.published)
    assert seen is None or (found.image_size, found.resize, found.interpolation, found.crops) == seen
    if name == "inception_resnet_v2":
        assert (found.mean, found.std) == ((0.5,) * 3, (0.5,) * 3)


@pytest.mark.parametrize(
    ("member", "pixels", "dim"), [(resnet152, 224, 2048), (vgg19, 224, 4096), (inception_resnet_v2, 299, 1536)]
)
def test_features_before_the_classes(assembled: list, member, pixels: int, dim: int) -> None:
    """Of VGG-19 fc7 after its ReLU, without dropout."""
    member.build(member.Params(weights="random"), 1)
    classifier = assembled[0][0]
    with torch.device("meta"), torch.inference_mode():
        model, images = classifier.make().eval(), torch.empty(2, 3, pixels, pixels)
        assert member is inception_resnet_v2 or model(images).shape == (2, 1000)
        features = classifier.strip(model)
        assert features(images).shape == (2, dim)
    if member is vgg19:
        kinds = [type(layer) for layer in features.classifier]
        assert kinds == [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear, nn.ReLU, nn.Dropout, nn.Identity]
        assert not features.classifier[5].training
