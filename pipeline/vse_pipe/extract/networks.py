"""How a network's weights were published, and what the options of a backbone make of it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torchvision.models.feature_extraction import create_feature_extractor

from vse_pipe.core import devices, weights
from vse_pipe.core.errors import UsageError
from vse_pipe.core.weights import WeightsFile
from vse_pipe.extract.backbone import Backbone
from vse_pipe.extract.params import ImageParams
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.pictures.transforms import FILTERS, Transform


@dataclass(frozen=True)
class Recipe:
    """How a network's published weights were evaluated; sizes in pixels, mean and std of RGB in 0..1."""

    image_size: int
    resize: int
    interpolation: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


def resolve(params: ImageParams, published: Recipe) -> Transform:
    """Fill in what ``params`` leaves to the published weights. Raises UsageError on sizes that do not fit."""
    size = params.image_size or published.image_size
    own = round(size * published.resize / published.image_size) if params.resize_mode == "shorter" else size
    resize = params.resize or own
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
        draft=params.draft,
    )


# The contract of the family: every member exports ``Params`` and ``build(params, seed) -> Backbone``.
#
# ``Params`` is a ``FeatureParams`` or ``ImageParams`` (pipeline/vse_pipe/extract/params.py). Members import torch, torchvision
# and timm inside ``build``: ``Params`` is loaded by every command, and those imports take seconds.


class Extractor(nn.Module):
    """uint8 (B, crops, S, S, 3) -> float32 (B, D): scale to 0..1, normalise the channels, mean over the crops."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, transform: Transform) -> None:
        super().__init__()
        self.net = net.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor(transform.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(transform.std).view(3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        # Crop by crop: ten crops of a batch at once need ten times the memory and are no faster.
        features = [self.net(self.scaled(crop)).float() for crop in pixels.unbind(1)]
        return features[0] if len(features) == 1 else torch.stack(features).mean(0)

    def scaled(self, crop: Tensor) -> Tensor:
        """Permuting rows of pixels gives channels_last, the layout convolutions are fastest in, for nothing."""
        return crop.permute(0, 3, 1, 2).float().div_(255).sub_(self.mean).div_(self.std)


def without_classifier(model: nn.Module, classes: int) -> nn.Module:
    """Replace the last linear layer (or convolution, as in SqueezeNet) by the identity, in place.

    Holds for every torchvision classifier: VGG and AlexNet give fc7 after its ReLU, the others their pooled features.
    Raises UsageError when that layer does not have ``classes`` outputs, so is not the classifier.
    """
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
    """D, found by a forward pass of one black image. Raises UsageError when the network does not give (1, D)."""
    try:
        with torch.inference_mode():
            shape = tuple(network(torch.zeros(1, 1, size, size, 3, dtype=torch.uint8)).shape)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{name} does not take images of {size} pixels: {reason}") from error
    if len(shape) != 2:
        raise UsageError(f"{name} gives features of shape {shape[1:]} for an image, expected one vector")
    return shape[1]


def _as_they_are(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    return state


@dataclass(frozen=True)
class Classifier:
    """make: the whole network, freshly initialised; strip: the same without its classifier; source: its published
    weights, None when params name a file or none; rename: (their tensors, network) -> tensors under the network's keys.
    """

    name: str
    library: str
    make: Callable[[], nn.Module]
    strip: Callable[[nn.Module], nn.Module]
    published: Recipe
    source: WeightsFile | None
    rename: Callable[[dict[str, Tensor], nn.Module], dict[str, Tensor]] = _as_they_are

    def loaded(self, params: ImageParams, seed: int) -> tuple[nn.Module, dict]:
        """The whole network with the weights that ``params`` name, and what is to be said of them.

        Raises what weights and states raise. Weights are looked for first: a network takes longer to build than a missing
        file to be noticed.
        """
        found = weights.locate(params, self.source, seed)
        model = devices.seeded(self.make, seed, self.library, self.name)
        if found.path is not None:
            devices.load_weights(model, self.rename(devices.read_weights(found.path), model), found.path)
        return model, found.about


def assemble(classifier: Classifier, params: ImageParams, seed: int) -> Backbone:
    """The backbone of ``classifier`` under ``params``.

    Raises what transforms, weights, states and network raise.
    """
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
        read=partial(_read, transform),
        module=module,
        about=about,
        libraries=("torch", "pillow", classifier.library),
        precision=params.precision,
    )


def _read(transform: Transform, root: Path, item: Item) -> np.ndarray:
    return images.pixels(root, item, transform)


_MAP = "map"


class Timm(nn.Module):
    """A timm model's features before pooling; the patches of a ViT are put back into their rows and columns."""

    # timm's models have no base class.
    model: Any

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, images: Tensor) -> Tensor:
        """Raises UsageError for features that are neither a map nor patches of one."""
        found = self.model.forward_features(images)
        if found.ndim == 4:
            # Swin and its kin have the channels last.
            last = found.shape[-1] == self.model.num_features != found.shape[1]
            return found.permute(0, 3, 1, 2) if last else found
        grid = getattr(getattr(self.model, "patch_embed", None), "grid_size", None)
        patches = found[:, getattr(self.model, "num_prefix_tokens", 0) :] if found.ndim == 3 else found
        if grid is None or patches.ndim != 3 or patches.shape[1] != grid[0] * grid[1]:
            raise UsageError(f"{self.name} gives features of shape {tuple(found.shape[1:])}, no map for a grid")
        return patches.transpose(1, 2).unflatten(2, tuple(grid))


def cut(model: nn.Module, size: int, name: str) -> nn.Module:
    """``model``, in eval mode and without its classifier, up to its last map; ``of`` takes the map from its output.

    size: pixels of images that are large enough for a map of several places; name: for messages. Raises UsageError when the
    network has no map.
    """
    # Traced, not run with a hook: what comes after the map, as the 120 million weights of VGG, is never computed.
    node = _last(model, size, name)
    return create_feature_extractor(model, {node: _MAP}, suppress_diff_warning=True)


def of(output: dict[str, Tensor] | Tensor) -> Tensor:
    """The map (B, D, H, W)."""
    return output if isinstance(output, Tensor) else output[_MAP]


def size(net: nn.Module, pixels: int, name: str) -> tuple[int, int]:
    """Height and width of the map for square images of ``pixels``."""
    shape = of(_run(net, pixels, name)).shape
    return shape[2], shape[3]


def _last(model: nn.Module, size: int, name: str) -> str:
    """The module whose output is the last map (B, D, H, W), more than one place, before the network pools it.

    Of DenseNet it is the ReLU after the map, which is no module. Raises UsageError for networks that end with tokens (ViT).
    """
    if name.split()[-1].startswith("densenet"):
        return "relu"
    seen: list[tuple[str, tuple[int, ...], bool]] = []

    def record(node: str, module: nn.Module, inputs, output) -> None:
        if isinstance(output, Tensor):
            own = any(True for _ in module.parameters(recurse=False))
            seen.append((node, tuple(output.shape), own))

    handles = [m.register_forward_hook(partial(record, node)) for node, m in model.named_modules() if node]
    _run(model, size, name)
    for handle in handles:
        handle.remove()
    places = [i for i, (_, shape, _) in enumerate(seen) if len(shape) == 4 and min(shape[2:]) > 1]
    if not places or any(own and len(shape) == 3 for _, shape, own in seen[places[-1] :]):
        raise UsageError(f"{name} ends with tokens, so it has no map for a grid; take a convolutional network")
    return seen[places[-1]][0]


def _run(model: nn.Module, size: int, name: str) -> Tensor | dict[str, Tensor]:
    try:
        with torch.inference_mode():
            return model(torch.zeros(1, 3, size, size))
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UsageError(f"{name} does not take images of {size} pixels: {reason}") from error


class RandomFilters(nn.Module):
    """(B, 3, S, S) to (B, 2 * filters): how well the best place of the image fits each filter, and its negative.

    Filters are Gaussian, scaled to unit length. The mean over the features is subtracted from every vector: maxima
    are positive throughout, and without it any two images would point the same way (cosine 0.94 on ``shapes``).
    """

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
