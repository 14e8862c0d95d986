"""The last feature map of a network, pooled to a grid of regions, and where the cells lie in the picture."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from pydantic import PositiveInt, ValidationError
from torch import Tensor, nn
from torch.nn import functional

from vse_pipe.core import devices
from vse_pipe.core.errors import UsageError
from vse_pipe.core.strict import Strict
from vse_pipe.extract import networks
from vse_pipe.extract.backbone import Backbone, Output
from vse_pipe.extract.backbones.options import RANDOM
from vse_pipe.extract.backbones.options import GridOptions as Params
from vse_pipe.extract.networks import Extractor, RandomFilters, Recipe
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.pictures.transforms import Transform

_FILTERS = Recipe(64, 64, "bilinear", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


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
        return functional.adaptive_avg_pool2d(networks.of(self.net(pixels)).float(), self.grid)


class ExtremesGrid(nn.Module):
    """The same of random filters: their strongest response in each cell and that of their negatives, mean subtracted.

    The filters are those of the backbone ``random_filters`` for the same seed; a 1 x 1 grid gives its features.
    """

    def __init__(self, filters: RandomFilters, rows: int, columns: int) -> None:
        super().__init__()
        self.conv, self.grid = filters.conv, (rows, columns)

    def forward(self, pixels: Float[Tensor, "images 3 side side"]) -> Float[Tensor, "images dim rows columns"]:
        responses = self.conv(pixels).float()
        highest = functional.adaptive_max_pool2d(responses, self.grid)
        lowest = functional.adaptive_max_pool2d(-responses, self.grid)
        extremes = torch.cat([highest, lowest], dim=1)
        return extremes - extremes.mean(dim=1, keepdim=True)


class Grid(Extractor):
    """Pixels (B, 1, S, S, 3) and windows (B, 4), the crop's edges in the image, to ``Output`` of rows * columns regions."""

    cells: Tensor

    def __init__(self, net: nn.Module, transform: Transform, cells: Float[Tensor, "regions 4"]) -> None:
        super().__init__(net, transform)
        self.register_buffer("cells", cells, persistent=False)

    # A batch of a backbone may be several arguments.
    def forward(  # type: ignore[override]
        self, pixels: UInt8[Tensor, "images 1 side side 3"], windows: Float[Tensor, "images 4"]
    ) -> Output:
        features = self.net(self.scaled(pixels[:, 0])).flatten(2).transpose(1, 2)
        corners, sizes = windows[:, None, :2], windows[:, None, 2:] - windows[:, None, :2]
        boxes = self.cells * torch.cat([sizes, sizes], dim=2) + torch.cat([corners, corners], dim=2)
        return Output(features, boxes)


def cells(rows: int, columns: int, height: int, width: int) -> Float[Tensor, "regions 4"]:
    """x1, y1, x2, y2 of each cell in shares of the map, row by row: what adaptive pooling of a ``height`` x ``width`` map
    takes together, from floor(i h / rows) to ceil((i + 1) h / rows).
    """
    across = [(i * width // columns / width, -(-(i + 1) * width // columns) / width) for i in range(columns)]
    down = [(i * height // rows / height, -(-(i + 1) * height // rows) / height) for i in range(rows)]
    return torch.tensor([[x1, y1, x2, y2] for y1, y2 in down for x1, x2 in across], dtype=torch.float32)


def assemble(params: Params, seed: int, random_filters: bool) -> Backbone:
    """The backbone ``grid`` under its ``params``."""
    seen: nn.Module
    pooled: nn.Module
    if random_filters:
        filters, transform, about, libraries = _of_filters(params, seed)
        seen, pooled = filters.conv, ExtremesGrid(filters, params.rows, params.columns)
    else:
        seen, transform, about, libraries = _of_classifier(params, seed)
        pooled = MeanGrid(seen, params.rows, params.columns)
    height, width = networks.size(seen, transform.image_size, about["network"])
    if params.rows > height or params.columns > width:
        raise UsageError(
            f"{about['network']} gives a map of {height} x {width} for images of {transform.image_size} pixels, smaller than "
            f"the grid of {params.rows} x {params.columns}: set rows and columns, or a larger image_size"
        )
    shares = cells(params.rows, params.columns, height, width)
    module = Grid(pooled, transform, shares).eval()
    with torch.inference_mode():
        blank = torch.zeros(1, 1, transform.image_size, transform.image_size, 3, dtype=torch.uint8)
        shape = module(blank, torch.zeros(1, 4)).features.shape
    about |= {"transform": transform.about(), "map": [height, width], "regions": shape[1], "dimensions": shape[2]}
    read = partial(_read, transform)
    return Backbone(read=read, module=module, about=about, libraries=libraries, precision=params.precision)


def _of_classifier(params: Params, seed: int) -> tuple[nn.Module, Transform, dict, tuple[str, ...]]:
    from vse_pipe.extract import published

    if params.library == "timm":
        found = published.timm_classifier(params.model, params, params.model_args)
    else:
        found = published.torchvision_classifier(params.model, params, params.model_args)
    transform = networks.resolve(params, found.published)
    model, about_weights = found.loaded(params, seed)
    name = f"{found.library} {found.name}"
    about = {"network": name, "weights": about_weights}
    libraries = ("torch", "pillow", found.library)
    if found.library == "timm":
        return networks.Timm(model.eval(), name), transform, about, libraries
    # Found at the published size: of a small image the last map may be one place, which looks like a pooled vector.
    fixed = found.name.startswith(("vit_", "maxvit"))
    probed = transform.image_size if fixed else max(transform.image_size, found.published.image_size)
    net = networks.cut(found.strip(model).eval(), probed, name)
    return net, transform, about, libraries


def _of_filters(params: Params, seed: int) -> tuple[RandomFilters, Transform, dict, tuple[str, ...]]:
    try:
        own = _FilterArguments.model_validate(params.model_args)
    except ValidationError as error:
        raise UsageError(f"random_filters does not take model_args {params.model_args}: {error}") from error
    transform = networks.resolve(params, _FILTERS)
    if own.size > transform.image_size:
        raise UsageError(f"size {own.size} of the filters is larger than image_size {transform.image_size}")
    net = devices.seeded(partial(RandomFilters, own.filters, own.size, own.stride), seed, "random_filters")
    about = {"network": "random filters", "weights": {"origin": "random", "seed": seed}}
    return net.eval(), transform, about, ("torch", "pillow")


def _read(transform: Transform, root: Path, item: Item) -> tuple[np.ndarray, np.ndarray]:
    pixels, size = images.pixels_and_size(root, item, transform)
    return pixels, np.array(transform.window(*size), dtype=np.float32)


def build(params: Params, seed: int) -> Backbone:
    """(rows * columns, D) an image, row by row from the top left, with the boxes of the cells and no scores.

    A box is the part of the picture that lies under the cell, in pixels of the upright image: after a centre crop the
    boxes together are that crop, and what lies outside is in none. The network sees more than the box of each cell (its
    receptive field). Where the map is no multiple of the grid, neighbouring cells share a line of the map, and their
    boxes overlap as much.

    Raises UnknownMember for another name, UsageError for a network without a map (torchvision's ViT; timm's gives its
    patches) or with a smaller one; else as ``assemble``.
    """
    return assemble(params, seed, params.model == RANDOM)
