"""torchvision's classifiers by name; resnet152 and vgg19 are two of them."""

import re
from functools import partial

from torch import Tensor, nn
from torchvision import models
from torchvision.models import WeightsEnum

from vse_pipe.core.errors import UnknownMember, UsageError, missing, unknown
from vse_pipe.core.weights import WeightsFile, source_of
from vse_pipe.extract.engine.network import without_classifier
from vse_pipe.extract.engine.networks.classifier import Classifier
from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.extract.engine.published import Recipe

_CLASSES = 1000
_OLD_DENSE_LAYER = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\..*)")


def names() -> list[str]:
    """Classifiers only: torchvision's detectors and segmenters give no vector for an image."""
    return models.list_models(module=models)


def classifier(name: str, params: ImageParams, arguments: dict) -> Classifier:
    """arguments: passed to the network's constructor. Raises UnknownMember for a name that is no classifier."""
    known = names()
    if name not in known:
        raise UnknownMember(unknown("torchvision model", name, known))
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
    """What torchvision itself adds when it builds these networks for their published weights."""
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
