"""timm's models by name; inception_resnet_v2 is one of them, with a digest of its own."""

import math
import sys
from functools import partial
from typing import Any

import timm
from torch import Tensor, nn

from vse_pipe.core.errors import InputError, UnknownMember, UsageError, missing
from vse_pipe.core.weights import WeightsFile, source_of
from vse_pipe.extract.engine.networks.classifier import Classifier
from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.extract.engine.published import Recipe

_HUB = "https://huggingface.co/{}/resolve/main/{}"
_HUB_FILE = "model.safetensors"


class PreLogits(nn.Module):
    """What timm calls the pre-logits: pooled, after any layers between pooling and classifier."""

    # timm's models have no base class.
    model: Any

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model.forward_head(self.model.forward_features(images), pre_logits=True)


def classifier(name: str, params: ImageParams, arguments: dict) -> Classifier:
    """name: an architecture, or ``architecture.tag`` for one of its published weights (without: timm's default tag).

    arguments: passed to timm.create_model. Raises UnknownMember for a name timm does not have, UsageError for one
    whose published weights cannot be used.
    """
    config = _config(name)
    if params.weights.isupper():
        raise UsageError(
            f"weights {params.weights} is one of torchvision's names; in timm the tag says it: model: resnet18.a1_in1k"
        )
    return Classifier(
        name=name,
        library="timm",
        make=partial(_make, name, arguments),
        strip=PreLogits,
        published=_published(config),
        source=_source(name, config) if params.weights == "imagenet" else None,
        rename=_renamed,
    )


def _config(name: str):
    known = sorted({*timm.list_models(), *timm.list_pretrained()})
    if name not in known:
        told = f"timm.list_models() names all {len(known)}"
        raise UnknownMember(missing(f"unknown timm model '{name}'", name, known, told))
    return timm.get_pretrained_cfg(name)


def _make(name: str, arguments: dict) -> nn.Module:
    try:
        model = timm.create_model(name, pretrained=False, **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"timm {name} does not take model_args {arguments}: {error}") from error
    if not hasattr(model, "forward_head"):
        raise UsageError(f"timm {name} has no classifier whose input could be taken")
    return model


def _published(config) -> Recipe:
    size = config.input_size[-1]
    return Recipe(
        image_size=size,
        resize=math.floor(size / (config.crop_pct or 1.0)),
        interpolation=config.interpolation,
        mean=tuple(config.mean),
        std=tuple(config.std),
    )


def _source(name: str, config) -> WeightsFile:
    """A release whose file name carries its digest, else the hub's file, which needs ``sha256`` in params."""
    if config.custom_load:
        raise UsageError(
            f"timm {name}: its weights are published in a format of their own; set weights to a .safetensors file"
        )
    released = source_of(config.url) if config.url else None
    if config.hf_hub_id and not (released and released.digest):
        file = f"{config.hf_hub_id.rsplit('/', 1)[-1]}.safetensors"
        return WeightsFile(_HUB.format(config.hf_hub_id, config.hf_hub_filename or _HUB_FILE), file, "")
    if released is None:
        raise UsageError(f"timm {name} has no published weights; set weights to random or to a file")
    return released


def _renamed(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """timm's own translation of published keys, which lies beside the model's class."""
    translate = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    try:
        return translate(state, model) if translate else state
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"the weights are not those of a timm {type(model).__name__}: {error!r}") from error
