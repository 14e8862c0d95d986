"""Classifiers of torchvision and timm by name, with their published weights."""

import math
import re
import sys
from functools import partial
from typing import Any

from torch import Tensor, nn
from torchvision import models
from torchvision.models import WeightsEnum

from vse_pipe.core.errors import InputError, UnknownMember, UsageError, missing, unknown
from vse_pipe.core.weights import WeightsFile, source_of
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.networks import Classifier, Recipe, without_classifier

_CLASSES = 1000
_OLD_DENSE_LAYER = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\..*)")


def names() -> list[str]:
    """The classifiers of torchvision; its detectors and segmenters have no vector for an image."""
    return models.list_models(module=models)


def torchvision_classifier(name: str, params: ImageParams, arguments: dict) -> Classifier:
    """The classifier ``name``. arguments: of the network's constructor. Raises UnknownMember for another name."""
    if name not in (classifiers := names()):
        raise UnknownMember(unknown("torchvision model", name, classifiers))
    entries = models.get_model_weights(name)
    published = _published(entries.__members__.get(params.weights, entries.DEFAULT))
    arguments = {**_own_arguments(name, params.image_size or published.image_size), **arguments}
    return Classifier(
        name=name,
        library="torchvision",
        make=partial(_make, name, arguments),
        strip=partial(without_classifier, classes=arguments.get("num_classes", _CLASSES)),
        published=published,
        source=_source(name, params.weights, entries),
        rename=_renamed,
    )


def _own_arguments(name: str, size: int) -> dict:
    """The arguments that torchvision adds when it builds these networks for their published weights."""
    if name in ("googlenet", "inception_v3"):
        # torchvision sets transform_input for published weights only; it then expects the usual mean and std.
        return {"transform_input": True, "init_weights": True}
    if name.startswith("vit_"):
        return {"image_size": size}
    return {"input_size": (size, size)} if name.startswith("maxvit") else {}


def _make(name: str, arguments: dict) -> nn.Module:
    try:
        return models.get_model(name, weights=None, **arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"torchvision {name} does not take model_args {arguments}: {error}") from error


def _source(name: str, weights: str, entries: type[WeightsEnum]) -> WeightsFile | None:
    if weights == "imagenet":
        return source_of(entries["DEFAULT"].url)
    if weights in entries.__members__:
        return source_of(entries[weights].url)
    if weights.isupper():
        raise UnknownMember(missing(f"torchvision {name} has no weights '{weights}'", weights, entries.__members__))
    return None


def _published(entry) -> Recipe:
    preset = entry.transforms()
    return Recipe(
        image_size=preset.crop_size[0],
        resize=preset.resize_size[0],
        interpolation=preset.interpolation.value,
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )


def _renamed(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """DenseNet's published files date from when module names could hold dots (norm.1 is now norm1)."""
    return {_OLD_DENSE_LAYER.sub(r"\1\2", key): tensor for key, tensor in state.items()}


_HUB = "https://huggingface.co/{}/resolve/main/{}"
_HUB_FILE = "model.safetensors"


class PreLogits(nn.Module):
    """timm's pre-logits: pooled features after any layers between pooling and classifier."""

    # timm's models have no base class.
    model: Any

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model.forward_head(self.model.forward_features(images), pre_logits=True)


def timm_classifier(name: str, params: ImageParams, arguments: dict) -> Classifier:
    """The timm model ``name``: an architecture, or ``architecture.tag`` for published weights other than the default.

    arguments: of timm.create_model. Raises UnknownMember for a name that timm does not have, UsageError for published
    weights that cannot be used.
    """
    config = _config(name)
    if params.weights.isupper():
        raise UsageError(
            f"weights {params.weights} is one of torchvision's names; in timm the tag says it: model: resnet18.a1_in1k"
        )
    return Classifier(
        name=name,
        library="timm",
        make=partial(_make_timm, name, arguments),
        strip=PreLogits,
        published=_published_timm(config),
        source=_timm_source(name, config) if params.weights == "imagenet" else None,
        rename=_renamed_timm,
    )


def _config(name: str):
    import timm  # seconds

    models_of_timm = sorted({*timm.list_models(), *timm.list_pretrained()})
    if name not in models_of_timm:
        advice = f"timm.list_models() names all {len(models_of_timm)}"
        raise UnknownMember(missing(f"unknown timm model '{name}'", name, models_of_timm, advice))
    return timm.get_pretrained_cfg(name)


def _make_timm(name: str, arguments: dict) -> nn.Module:
    import timm

    try:
        model = timm.create_model(name, pretrained=False, **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"timm {name} does not take model_args {arguments}: {error}") from error
    if not hasattr(model, "forward_head"):
        raise UsageError(f"timm {name} has no classifier whose input could be taken")
    return model


def _published_timm(config) -> Recipe:
    size = config.input_size[-1]
    return Recipe(
        image_size=size,
        resize=math.floor(size / (config.crop_pct or 1.0)),
        interpolation=config.interpolation,
        mean=tuple(config.mean),
        std=tuple(config.std),
    )


def _timm_source(name: str, config) -> WeightsFile:
    """The release when its file name has a digest, else the file on the hub, which needs ``sha256`` in params."""
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


def _renamed_timm(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The tensors under timm's present keys; timm's translation is in the module of the model's class."""
    translate = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    try:
        return translate(state, model) if translate else state
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"the weights are not those of a timm {type(model).__name__}: {error!r}") from error
