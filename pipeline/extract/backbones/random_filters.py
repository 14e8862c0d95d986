"""Random filters and max pooling: features of simple pictures without any trained weights, in seconds on a CPU."""

from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import PositiveInt, model_validator

from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.params import FeatureParams
from pipeline.pictures.images import Item


class Params(FeatureParams):
    """filters: their number, half the number of features; size, stride: of the filters, in pixels of the image
    after it has been scaled to image_size x image_size (the aspect ratio is not kept, nothing is cut off); image_size: its side in pixels.
    """

    filters: PositiveInt = 256
    size: PositiveInt = 7
    stride: PositiveInt = 2
    image_size: PositiveInt = 64

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.size > self.image_size:
            raise ValueError(f"size {self.size} is larger than image_size {self.image_size}")
        return self


def build(params: Params, seed: int) -> Backbone:
    """After Saxe et al., On Random Weights and Unsupervised Feature Learning (ICML 2011): random filters alone can
    separate images, given suitable pooling. Differs: a single layer, no rectification, maxima over the whole image.

    ResNet-18, SqueezeNet and MobileNetV3 with random weights do far worse on ``shapes``: the means they end with are
    nearly the same for every image (cosine 0.92 to 0.996), and a small figure hardly moves them.
    """
    from pipeline.extract.engine import states
    from pipeline.extract.engine.network import Extractor
    from pipeline.extract.engine.networks.random_filters import RandomFilters
    from pipeline.pictures.transforms import Transform

    transform = Transform(
        image_size=params.image_size,
        resize=params.image_size,
        resize_mode="exact",
        interpolation="bilinear",
        crops="center",
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
    )
    make = partial(RandomFilters, params.filters, params.size, params.stride)
    about = {
        "network": "random filters",
        "weights": {"origin": "random", "seed": seed},
        "transform": transform.about(),
        "dimensions": 2 * params.filters,
    }
    network = Extractor(states.seeded(make, seed, "random_filters"), transform).eval()
    return Backbone(read=partial(_read, transform), module=network, about=about)


def _read(transform, root: Path, item: Item) -> np.ndarray:
    from pipeline.pictures import images

    return images.pixels(root, item, transform)
