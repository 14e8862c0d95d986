"""The last feature map of a network, pooled to a grid of regions, with the boxes of the cells in the picture."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import PositiveInt, ValidationError
from torch import Tensor, nn

from vse_pipe.core import devices
from vse_pipe.core.errors import UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import RANDOM
from vse_pipe.extract.backbones.options import GridOptions as Params
from vse_pipe.extract.job import Backbone, Output
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Transform

_FILTERS = networks.Recipe(64, 64, "bilinear", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


class _FilterArguments(Strict):
    filters: PositiveInt = 256
    size: PositiveInt = 7
    stride: PositiveInt = 2


class MeanGrid(nn.Module):
    """(B, 3, S, S) to (B, D, rows, columns): the network's last map, averaged over the cells of the grid."""

    def __init__(self, net: nn.Module, rows: int, columns: int) -> None:
        super().__init__()
        self.net, self.grid = net, (rows, columns)

    def forward(self, pixels: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images dim rows columns"]:
        return nn.functional.adaptive_avg_pool2d(networks.feature_map(self.net(pixels)).float(), self.grid)


class ExtremesGrid(nn.Module):
    """The same for random filters: the strongest response to each filter and its negative in each cell, mean
    subtracted.

    The filters are those of the backbone ``random_filters`` for the same seed; a 1 x 1 grid has its features."""

    def __init__(self, filters: networks.RandomFilters, rows: int, columns: int) -> None:
        super().__init__()
        self.conv, self.grid = filters.conv, (rows, columns)

    def forward(self, pixels: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images dim rows columns"]:
        responses = self.conv(pixels).float()
        highest = nn.functional.adaptive_max_pool2d(responses, self.grid)
        extremes = torch.cat([highest, nn.functional.adaptive_max_pool2d(-responses, self.grid)], dim=1)
        return extremes - extremes.mean(dim=1, keepdim=True)


class Grid(networks.Extractor):
    """Pixels (B, 1, S, S, 3) and windows (B, 4), the crop's edges in the image, to regions of a grid."""

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
    """x1, y1, x2, y2 of each cell as shares of the map, row by row. Adaptive pooling of a ``height`` x ``width`` map
    averages rows floor(i h / rows) to ceil((i + 1) h / rows)."""
    across = [(i * width // columns / width, -(-(i + 1) * width // columns) / width) for i in range(columns)]
    down = [(i * height // rows / height, -(-(i + 1) * height // rows) / height) for i in range(rows)]
    return torch.tensor([[x1, y1, x2, y2] for y1, y2 in down for x1, x2 in across], dtype=torch.float32)


def build(params: Params, seed: int) -> Backbone:
    """(rows * columns, D) an image, row by row from the top left, with the boxes of the cells and no scores.

    A box is the part of the picture under the cell, in pixels of the upright image. After a centre crop the boxes
    together are that crop, and the rest of the picture is in no box. The network sees more than the box of a cell (its
    receptive field). When the map is no multiple of the grid, neighbouring cells share a line of the map and their
    boxes overlap.

    Raises UnknownMember for another name, UsageError for a network without a map (torchvision's ViT; timm's gives its
    patches) or with a smaller one; else as ``networks.assemble``."""
    network: nn.Module
    pooled: nn.Module
    if params.model == RANDOM:
        filters, transform, about, libraries = _filters(params, seed)
        network, pooled = filters.conv, ExtremesGrid(filters, params.rows, params.columns)
    else:
        network, transform, about, libraries = _classifier(params, seed)
        pooled = MeanGrid(network, params.rows, params.columns)
    height, width = networks.map_size(network, transform.image_size, about["network"])
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
    if params.library == "timm":
        classifier = networks.timm_classifier(params.model, params, params.model_args)
    else:
        classifier = networks.torchvision_classifier(params.model, params, params.model_args)
    transform = networks.resolve(params, classifier.published)
    model, about_weights = classifier.loaded(params, seed)
    name = f"{classifier.library} {classifier.name}"
    about = {"network": name, "weights": about_weights}
    libraries = ("torch", "pillow", classifier.library)
    if classifier.library == "timm":
        return networks.Timm(model.eval(), name), transform, about, libraries
    # The map is searched at the published size: the last map of a small image can be one place, like a pooled vector.
    fixed = classifier.name.startswith(("vit_", "maxvit"))
    probed = transform.image_size if fixed else max(transform.image_size, classifier.published.image_size)
    return networks.cut(classifier.strip(model).eval(), probed, name), transform, about, libraries


def _filters(params: Params, seed: int) -> tuple[networks.RandomFilters, Transform, dict, tuple[str, ...]]:
    try:
        arguments = _FilterArguments.model_validate(params.model_args)
    except ValidationError as error:
        raise UsageError(f"random_filters does not take model_args {params.model_args}: {error}") from error
    transform = networks.resolve(params, _FILTERS)
    if arguments.size > transform.image_size:
        raise UsageError(f"size {arguments.size} of the filters is larger than image_size {transform.image_size}")
    net = devices.seeded(
        partial(networks.RandomFilters, arguments.filters, arguments.size, arguments.stride), seed, "random_filters"
    )
    about = {"network": "random filters", "weights": {"origin": "random", "seed": seed}}
    return net.eval(), transform, about, ("torch", "pillow")


def _read(transform: Transform, root: Path, item: images.Item) -> tuple[np.ndarray, np.ndarray]:
    pixels, size = images.pixels_and_size(root, item, transform)
    return pixels, np.array(transform.window(*size), dtype=np.float32)
