"""How a network's weights were published, and what the options of a backbone make of it."""

from dataclasses import dataclass

from vse_pipe.core.errors import UsageError
from vse_pipe.extract.engine.params import ImageParams
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
