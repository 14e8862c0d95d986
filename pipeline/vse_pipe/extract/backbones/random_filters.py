"""Random filters and max pooling: features of simple pictures without weights, in seconds."""

from functools import partial

from vse_pipe.core import devices
from vse_pipe.extract.backbones.options import RandomFiltersOptions as Params
from vse_pipe.extract.job import Backbone
from vse_pipe.extract.networks import Extractor, RandomFilters
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Transform


def build(params: Params, seed: int) -> Backbone:
    """After Saxe et al., On Random Weights and Unsupervised Feature Learning (ICML 2011): random
    filters alone can separate images, given suitable pooling. Differs: a single layer, no
    rectification, maxima over the whole image."""
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
    network = Extractor(devices.seeded(make, seed, "random_filters"), transform).eval()
    return Backbone(read=partial(images.pixels, transform=transform), module=network, about=about)
