"""timm's models by name."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch

from vse_pipe.core.errors import InputError, UnknownMember, UsageError
from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.backbones.options import TimmOptions as Params
from vse_pipe.extract.backbones.timm import build

# With the length of their features.
NAMES = {
    "resnet18": 512,
    "mobilenetv3_small_050": 1024,
    "mobilenet_edgetpu_100": 1280,
    "vit_tiny_patch16_224": 192,
    "convnext_atto": 320,
    "levit_128s": 384,
    "deit_tiny_distilled_patch16_224": 192,
    "swin_tiny_patch4_window7_224": 768,
    "mixer_s32_224": 512,
}


def shape(name: str) -> tuple[int, ...]:
    found = networks.timm_classifier(name, ImageParams(weights="random"), {})
    size = found.published.image_size
    with torch.device("meta"), torch.inference_mode():
        return tuple(found.strip(found.make()).eval()(torch.empty(2, 3, size, size)).shape)


def test_a_vector_an_image() -> None:
    assert {name: shape(name) for name in NAMES} == {name: (2, dim) for name, dim in NAMES.items()}


@pytest.mark.acceptance
def test_models_of_many_kinds_give_a_vector_an_image() -> None:
    # A fifth of the kinds, for all of them take minutes.
    shortest = [min(timm.list_models(module=module), key=len) for module in timm.list_modules()[::5]]
    assert len(shortest) > 12
    shapes = {name: shape(name) for name in shortest}
    assert {name: found for name, found in shapes.items() if len(found) != 2} == {}


def test_random_features_are_timms_own(folder: Path) -> None:
    backbone = build(Params(model="mobilenetv3_small_050", weights="random", image_size=64, resize=64), seed=1)
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 1, 64, 64, 3), dtype=np.uint8))
    model = backbone.module.net.model
    classifier = model.get_classifier()
    with torch.inference_mode():
        found = backbone.module(pixels)
        logits = model(backbone.module.scaled(pixels[:, 0]))
        assert torch.allclose(classifier(found), logits, atol=1e-6)
    assert backbone.about["transform"]["mean"] == list(timm.get_pretrained_cfg("mobilenetv3_small_050").mean)


def test_a_file_for_other_arguments_needs_them(folder: Path) -> None:
    torch.save(timm.create_model("mobilenetv3_small_050", num_classes=7).state_dict(), "own.pth")
    options = {"model": "mobilenetv3_small_050", "weights": "own.pth", "image_size": 64}
    assert (
        build(Params(**options, model_args={"num_classes": 7, "pad_type": "same"}), seed=1).about["dimensions"] == 1024
    )
    with pytest.raises(InputError, match=r"shapes: classifier.weight is 7x1024, expected 1000x1024"):
        build(Params(**options), seed=1)


def test_the_tag_says_where_weights_come_from() -> None:
    released = networks.timm_classifier("resnet18.a1_in1k", ImageParams(), {})
    assert released.source.url.endswith("resnet18_a1_0-d63eafa0.pth")
    assert released.source.digest == "d63eafa0"
    assert (released.published.image_size, released.published.resize) == (224, 235)
    on_the_hub = networks.timm_classifier("vit_base_patch16_224.augreg2_in21k_ft_in1k", ImageParams(), {})
    assert (
        on_the_hub.source.url
        == "https://huggingface.co/timm/vit_base_patch16_224.augreg2_in21k_ft_in1k/resolve/main/model.safetensors"
    )
    assert on_the_hub.source.digest == ""


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"model": "resnet1888"}, UnknownMember, "unknown timm model 'resnet1888'; did you mean 'resnet18"),
    ({"model": "resnet18.a9_in1k"}, UnknownMember, "unknown timm model 'resnet18.a9_in1k'; did you mean 'resnet18.a"),
    ({"model": "vit_base_patch16_224.augreg2_in21k_ft_in1k"}, UsageError,
     "set sha256 to the digest its publisher gives"),
    ({"model": "resnet18", "weights": "IMAGENET1K_V1"}, UsageError, "in timm the tag says it"),
    ({"model": "resnet18", "weights": "random", "model_args": {"depht": 3}}, UsageError, "does not take model_args"),
    ({"model": "vit_tiny_patch16_224", "weights": "random", "image_size": 96}, UsageError,
     "timm vit_tiny_patch16_224 does not take images of 96 pixels"),
])  # fmt: skip
def test_refuses(folder: Path, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        build(Params(**options), seed=1)
