"""Networks for images: transforms, weights, features; classifiers by name."""

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torchvision import models

from vse_pipe.core import devices, weights
from vse_pipe.core.errors import InputError, UnknownMember, UsageError, first_line, missing, unknown
from vse_pipe.core.weights import WeightsFile, source_of
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.job import Backbone
from vse_pipe.pictures import images
from vse_pipe.pictures.images import FILTERS, Transform


@dataclass(frozen=True)
class Recipe:
    """The evaluation of published weights; sizes in pixels, mean and std of RGB in 0..1."""

    image_size: int
    resize: int
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


def resolve(params: ImageParams, published: Recipe) -> Transform:
    """The transform of ``params``, else the published one. Raises UsageError for unfit sizes."""
    size = params.image_size or published.image_size
    default = round(size * published.resize / published.image_size) if params.resize_mode == "shorter" else size
    resize = params.resize or default
    if resize < size:
        raise UsageError(f"resize {resize} is smaller than image_size {size}: the crop would not fit")
    interpolation = params.interpolation or published.interpolation
    if interpolation not in FILTERS:
        raise UsageError(
            f"the weights were published with {interpolation} scaling; set interpolation to {' or '.join(FILTERS)}"
        )
    return Transform(
        image_size=size,
        resize=resize,
        resize_mode=params.resize_mode,
        interpolation=interpolation,
        crops=params.crops,
        mean=tuple(params.mean or published.mean),
        std=tuple(params.std or published.std),
    )


class Extractor(nn.Module):
    """uint8 (B, crops, S, S, 3) -> float32 (B, D): scaled to 0..1, normalised, mean over crops."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, transform: Transform) -> None:
        super().__init__()
        self.net = net.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor(transform.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(transform.std).view(3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        # Crop by crop: all ten crops at once need ten times the memory and are no faster.
        features = [self.net(self.scaled(crop)).float() for crop in pixels.unbind(1)]
        return features[0] if len(features) == 1 else torch.stack(features).mean(0)

    def scaled(self, crop: Tensor) -> Tensor:
        """Pixels as float32. The permuted rows are channels_last, the fastest for convolutions."""
        return crop.permute(0, 3, 1, 2).float().div_(255).sub_(self.mean).div_(self.std)


def without_classifier(model: nn.Module, classes: int) -> nn.Module:
    """Replace the last linear layer (or convolution, as in SqueezeNet) by the identity, in place.

    VGG and AlexNet of torchvision then return fc7 after its ReLU, its other classifiers their
    pooled features. Raises UsageError when the layer does not have ``classes`` outputs and so is
    not the classifier."""
    layers = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    name, layer = layers[-1]
    outputs = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if outputs != classes:
        raise UsageError(
            f"{type(model).__name__}: its last layer '{name}' has {outputs} outputs, not {classes} classes"
        )
    model.set_submodule(name, nn.Identity())
    return model


def dimensions(network: Extractor, size: int, name: str) -> int:
    """D, by a forward pass of a black image. Raises UsageError for a result that is not (1, D)."""
    shape = tuple(run(network, torch.zeros(1, 1, size, size, 3, dtype=torch.uint8), name).shape)
    if len(shape) != 2:
        raise UsageError(f"{name} gives features of shape {shape[1:]} for an image, expected one vector")
    return shape[1]


@dataclass(frozen=True)
class Classifier:
    """make: returns the network, freshly initialised; strip: removes its classifier; source:
    address of published weights, None when params name a file or random weights; rename: (tensors
    of the file, network) -> tensors under its keys."""

    name: str
    library: str
    make: Callable[[], nn.Module]
    strip: Callable[[nn.Module], nn.Module]
    published: Recipe
    source: WeightsFile | None
    rename: Callable[[dict[str, Tensor], nn.Module], dict[str, Tensor]] = lambda state, model: state

    def loaded(self, params: ImageParams, seed: int) -> tuple[nn.Module, dict]:
        """The network with the weights that ``params`` name, and their description for meta.json.

        Weights are located first, because a missing file is noticed faster than a network is built.
        Raises what ``weights.locate`` and ``devices.load_weights`` raise."""
        source = weights.locate(params.weights, params.sha256, self.source, seed)
        model = devices.seeded(self.make, seed, self.library, self.name)
        if source.path is not None:
            devices.load_weights(model, self.rename(devices.read_weights(source.path), model), source.path)
        return model, source.about


def backbone_of(classifier: Classifier, params: ImageParams, seed: int) -> Backbone:
    """The backbone of ``classifier`` under ``params``.

    Raises what transforms, weights, states and network raise."""
    transform = resolve(params, classifier.published)
    model, about_weights = classifier.loaded(params, seed)
    module = Extractor(classifier.strip(model), transform).eval()
    name = f"{classifier.library} {classifier.name}"
    about = {
        "network": name,
        "weights": about_weights,
        "transform": transform.about(),
        "dimensions": dimensions(module, transform.image_size, name),
    }
    return Backbone(
        read=partial(images.pixels, transform=transform),
        module=module,
        about=about,
        libraries=("torch", "pillow", classifier.library),
        precision=params.precision,
    )


def run(model: nn.Module, pixels: Tensor, name: str) -> Any:
    """The output for square images. Raises UsageError for images of a size it does not take."""
    try:
        with torch.inference_mode():
            return model(pixels)
    except (RuntimeError, AssertionError, ValueError) as error:
        size = pixels.shape[-2]
        raise UsageError(f"{name} does not take images of {size} pixels: {first_line(error)}") from error


class RandomFilters(nn.Module):
    """(B, 3, S, S) to (B, 2 * filters): the strongest response of the image to each filter, and to
    its negative.

    Filters are Gaussian, scaled to unit length. The mean over the features is subtracted, because
    maxima are all positive and any two images would otherwise be alike."""

    def __init__(self, filters: int, size: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, filters, size, stride, bias=False)
        weights = torch.randn(self.conv.weight.shape)
        norms = weights.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        self.conv.weight = nn.Parameter(weights / norms, requires_grad=False)

    def forward(self, images: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images features"]:
        responses = self.conv(images)
        extremes = torch.cat([responses.amax(dim=(2, 3)), -responses.amin(dim=(2, 3))], dim=1)
        return extremes - extremes.mean(dim=1, keepdim=True)


_CLASSES = 1000
_OLD_DENSE_LAYER = re.compile(r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\..*)")


def torchvision_classifier(name: str, params: ImageParams, arguments: dict) -> Classifier:
    """The classifier ``name``. arguments: of its constructor. Raises UnknownMember for others."""
    # Detectors and segmenters have no vector for an image.
    if name not in (classifiers := models.list_models(module=models)):
        raise UnknownMember(unknown("torchvision model", name, classifiers))
    entries = models.get_model_weights(name)
    published = _published(entries.__members__.get(params.weights, entries.DEFAULT))
    arguments = {**_own_arguments(name, params.image_size or published.image_size), **arguments}
    return Classifier(
        name=name,
        library="torchvision",
        make=partial(_built, "torchvision", name, arguments, partial(models.get_model, weights=None)),
        strip=partial(without_classifier, classes=arguments.get("num_classes", _CLASSES)),
        published=published,
        source=_source(name, params.weights, entries),
        rename=_renamed,
    )


def _own_arguments(name: str, size: int) -> dict:
    """The arguments that torchvision adds when it builds these networks for published weights."""
    if name in ("googlenet", "inception_v3"):
        # torchvision sets transform_input for published weights only; it then expects the usual
        # mean and std.
        return {"transform_input": True, "init_weights": True}
    if name.startswith("vit_"):
        return {"image_size": size}
    return {"input_size": (size, size)} if name.startswith("maxvit") else {}


def _built(library: str, name: str, arguments: dict, make: Callable[..., nn.Module]) -> nn.Module:
    try:
        return make(name, **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise UsageError(f"{library} {name} does not take model_args {arguments}: {error}") from error


def _source(name: str, weights: str, entries: type[models.WeightsEnum]) -> WeightsFile | None:
    entry = entries.__members__.get("DEFAULT" if weights == "imagenet" else weights)
    if entry is None and weights.isupper():
        message = f"torchvision {name} has no weights '{weights}'"
        raise UnknownMember(missing(message, weights, entries.__members__))
    return entry and source_of(entry.url)


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
    """DenseNet's published files are of a time when names could hold dots (norm.1, now norm1)."""
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
    """The timm model ``name``: an architecture, or ``architecture.tag`` for published weights other
    than the default.

    arguments: of timm.create_model. Raises UnknownMember for a name that timm does not have,
    UsageError for published weights that cannot be used."""
    config = _config(name)
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

    model = _built("timm", name, arguments, partial(timm.create_model, pretrained=False))
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
    """The release if its name has a digest, else the file on the hub, which needs ``sha256``."""
    if config.custom_load or not (config.url or config.hf_hub_id):
        raise UsageError(f"timm {name} has no published weights that can be read; set weights to random or to a file")
    released = source_of(config.url) if config.url else None
    if config.hf_hub_id and not (released and released.digest):
        file = f"{config.hf_hub_id.rsplit('/', 1)[-1]}.safetensors"
        return WeightsFile(_HUB.format(config.hf_hub_id, config.hf_hub_filename or _HUB_FILE), file, "")
    assert released is not None
    return released


def _renamed_timm(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The tensors under timm's present keys; the model's class has timm's translation."""
    translate = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    try:
        return translate(state, model) if translate else state
    except (KeyError, ValueError, RuntimeError) as error:
        raise InputError(f"the weights are not those of a timm {type(model).__name__}: {error!r}") from error
