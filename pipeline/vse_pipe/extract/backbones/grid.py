"""The last feature map of a network, pooled to a grid of regions, with the boxes of the cells."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import ValidationError
from torch import Tensor, nn
from torchvision.models.feature_extraction import create_feature_extractor

from vse_pipe.core import devices
from vse_pipe.core.errors import UsageError
from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import RANDOM, RandomFiltersOptions
from vse_pipe.extract.backbones.options import GridOptions as Params
from vse_pipe.extract.job import Backbone, Output
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Transform

_FILTERS = networks.Recipe(64, 64, "bilinear", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


class MeanGrid(nn.Module):
    """(B, 3, S, S) to (B, D, rows, columns): the network's last map, averaged over the cells."""

    def __init__(self, net: nn.Module, rows: int, columns: int) -> None:
        super().__init__()
        self.net, self.grid = net, (rows, columns)

    def forward(self, pixels: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images dim rows columns"]:
        return nn.functional.adaptive_avg_pool2d(_map_of(self.net(pixels)).float(), self.grid)


class ExtremesGrid(nn.Module):
    """The same for random filters: the strongest response to each filter and its negative in each
    cell, mean subtracted.

    The filters are those of the backbone ``random_filters`` for the same seed; a 1 x 1 grid has its
    features."""

    def __init__(self, filters: networks.RandomFilters, rows: int, columns: int) -> None:
        super().__init__()
        self.conv, self.grid = filters.conv, (rows, columns)

    def forward(self, pixels: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images dim rows columns"]:
        responses = self.conv(pixels).float()
        highest = nn.functional.adaptive_max_pool2d(responses, self.grid)
        extremes = torch.cat([highest, nn.functional.adaptive_max_pool2d(-responses, self.grid)], dim=1)
        return extremes - extremes.mean(dim=1, keepdim=True)


class Grid(networks.Extractor):
    """Pixels (B, 1, S, S, 3) and windows (B, 4), the crop's edges in the image, to regions."""

    cells: Tensor

    def __init__(self, net: nn.Module, transform: Transform, cells: Float[Tensor, "regions 4"]) -> None:
        super().__init__(net, transform)
        self.register_buffer("cells", cells, persistent=False)

    # A batch of a backbone can have several arguments.
    def forward(  # type: ignore[override]
        self, pixels: UInt8[Tensor, "images 1 side side 3"], windows: Float[Tensor, "images 4"]
    ) -> Output:
        features = self.net(self.scaled(pixels[:, 0])).flatten(2).transpose(1, 2)
        corners, sizes = windows[:, None, :2], windows[:, None, 2:] - windows[:, None, :2]
        return Output(features, self.cells * torch.cat([sizes, sizes], dim=2) + torch.cat([corners, corners], dim=2))


def cells(rows: int, columns: int, height: int, width: int) -> Float[Tensor, "regions 4"]:
    """x1, y1, x2, y2 of each cell as shares of the map, row by row. Adaptive pooling of a
    ``height`` x ``width`` map averages rows floor(i h / rows) to ceil((i + 1) h / rows)."""
    across = [(i * width // columns / width, -(-(i + 1) * width // columns) / width) for i in range(columns)]
    down = [(i * height // rows / height, -(-(i + 1) * height // rows) / height) for i in range(rows)]
    return torch.tensor([[x1, y1, x2, y2] for y1, y2 in down for x1, x2 in across], dtype=torch.float32)


def build(params: Params, seed: int) -> Backbone:
    """(rows * columns, D) an image, row by row from the top left, with the boxes of the cells and
    no scores.

    A box is the part of the picture under the cell, in pixels of the upright image. After a centre
    crop the boxes together are that crop, and the rest of the picture is in no box. The network
    sees more than the box of a cell (its receptive field). When the map is no multiple of the grid,
    neighbouring cells share a line of the map and their boxes overlap.

    Raises UnknownMember for another name, UsageError for a network without a map (torchvision's
    ViT; timm's gives its patches) or with a smaller one; else as ``networks.backbone_of``."""
    network: nn.Module
    pooled: nn.Module
    if params.model == RANDOM:
        filters, transform, about, libraries = _filters(params, seed)
        network, pooled = filters.conv, ExtremesGrid(filters, params.rows, params.columns)
    else:
        network, transform, about, libraries = _classifier(params, seed)
        pooled = MeanGrid(network, params.rows, params.columns)
    pixels = torch.zeros(1, 3, transform.image_size, transform.image_size)
    height, width = _map_of(networks.run(network, pixels, about["network"])).shape[2:]
    if params.rows > height or params.columns > width:
        raise UsageError(
            f"{about['network']} gives a map of {height} x {width} for images of {transform.image_size} pixels, smaller than "
            f"the grid of {params.rows} x {params.columns}: set rows and columns, or a larger image_size"
        )
    module = Grid(pooled, transform, cells(params.rows, params.columns, height, width)).eval()
    with torch.inference_mode():
        blank = torch.zeros(1, 1, transform.image_size, transform.image_size, 3, dtype=torch.uint8)
        shape = module(blank, torch.zeros(1, 4)).features.shape
    about |= {"transform": transform.about(), "map": [height, width], "regions": shape[1], "dimensions": shape[2]}
    read = partial(_read, transform)
    return Backbone(read=read, module=module, about=about, libraries=libraries, precision=params.precision)


def _classifier(params: Params, seed: int) -> tuple[nn.Module, Transform, dict, tuple[str, ...]]:
    choose = networks.timm_classifier if params.library == "timm" else networks.torchvision_classifier
    classifier = choose(params.model, params, params.model_args)
    transform = networks.resolve(params, classifier.published)
    model, about_weights = classifier.loaded(params, seed)
    name = f"{classifier.library} {classifier.name}"
    about = {"network": name, "weights": about_weights}
    libraries = ("torch", "pillow", classifier.library)
    if classifier.library == "timm":
        return _Timm(model.eval(), name), transform, about, libraries
    # The map is searched at the published size: the last map of a small image can be one place,
    # like a pooled vector.
    fixed = classifier.name.startswith(("vit_", "maxvit"))
    probed = transform.image_size if fixed else max(transform.image_size, classifier.published.image_size)
    return _cut(classifier.strip(model).eval(), probed, name), transform, about, libraries


def _filters(params: Params, seed: int) -> tuple[networks.RandomFilters, Transform, dict, tuple[str, ...]]:
    transform = networks.resolve(params, _FILTERS)
    try:
        options = RandomFiltersOptions.model_validate({"image_size": transform.image_size, **params.model_args})
    except ValidationError as error:
        raise UsageError(f"random_filters does not take model_args {params.model_args}: {error}") from error
    make = partial(networks.RandomFilters, options.filters, options.size, options.stride)
    about = {"network": "random filters", "weights": {"origin": "random", "seed": seed}}
    net = devices.seeded(make, seed, "random_filters")
    return net.eval(), transform, about, ("torch", "pillow")


_MAP = "map"


class _Timm(nn.Module):
    """The features of a timm model before pooling; patches of a ViT in their rows and columns."""

    # timm's models have no base class.
    model: Any

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, images: Tensor) -> Tensor:
        """Raises UsageError for features that are neither a map nor patches of one."""
        features = self.model.forward_features(images)
        if features.ndim == 4:
            # Swin and related networks have the channels last.
            last = features.shape[-1] == self.model.num_features != features.shape[1]
            return features.permute(0, 3, 1, 2) if last else features
        grid = getattr(getattr(self.model, "patch_embed", None), "grid_size", None)
        patches = features[:, getattr(self.model, "num_prefix_tokens", 0) :] if features.ndim == 3 else features
        if grid is None or patches.ndim != 3 or patches.shape[1] != grid[0] * grid[1]:
            raise UsageError(f"{self.name} gives features of shape {tuple(features.shape[1:])}, no map for a grid")
        return patches.transpose(1, 2).unflatten(2, tuple(grid))


def _cut(model: nn.Module, size: int, name: str) -> nn.Module:
    """``model``, in eval mode and without its classifier, up to its last map; ``_map_of`` returns
    the map of its output.

    size: pixels of images that are large enough for a map of several places; name: for messages.
    Raises UsageError when the network has no map."""
    # Traced and not hooked, so that layers after the map, such as the 120 million weights of VGG,
    # are never computed.
    return create_feature_extractor(model, {_last(model, size, name): _MAP}, suppress_diff_warning=True)


def _map_of(output: dict[str, Tensor] | Tensor) -> Tensor:
    """(B, D, H, W)."""
    return output if isinstance(output, Tensor) else output[_MAP]


def _last(model: nn.Module, size: int, name: str) -> str:
    """The module whose output is the last map (B, D, H, W) with more than one place, before
    pooling.

    In DenseNet it is the ReLU after the map, which is no module. Raises UsageError for networks
    that end with tokens (ViT)."""
    if name.split()[-1].startswith("densenet"):
        return "relu"
    outputs: list[tuple[str, tuple[int, ...], bool]] = []

    def record(node: str, module: nn.Module, inputs, output) -> None:
        if isinstance(output, Tensor):
            outputs.append((node, tuple(output.shape), any(True for _ in module.parameters(recurse=False))))

    handles = [m.register_forward_hook(partial(record, node)) for node, m in model.named_modules() if node]
    networks.run(model, torch.zeros(1, 3, size, size), name)
    for handle in handles:
        handle.remove()
    places = [i for i, (_, shape, _) in enumerate(outputs) if len(shape) == 4 and min(shape[2:]) > 1]
    if not places or any(has_weights and len(shape) == 3 for _, shape, has_weights in outputs[places[-1] :]):
        raise UsageError(f"{name} ends with tokens, so it has no map for a grid; take a convolutional network")
    return outputs[places[-1]][0]


def _read(transform: Transform, root: Path, item: images.Item) -> tuple[np.ndarray, np.ndarray]:
    pixels, size = images.pixels_and_size(root, item, transform)
    return pixels, np.array(transform.window(*size), dtype=np.float32)
