"""What all ImageNet classifiers have in common: weights, transform, one vector an image."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor, nn

from vse_pipe.core import states, weights
from vse_pipe.core.weights import WeightsFile
from vse_pipe.extract.engine import network, published
from vse_pipe.extract.engine.backbone import Backbone
from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.extract.engine.published import Recipe
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.pictures.transforms import Transform


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
        model = states.seeded(self.make, seed, self.library, self.name)
        if found.path is not None:
            states.load(model, self.rename(states.read(found.path), model), found.path)
        return model, found.about


def assemble(classifier: Classifier, params: ImageParams, seed: int) -> Backbone:
    """The backbone of ``classifier`` under ``params``.

    Raises what transforms, weights, states and network raise.
    """
    transform = published.resolve(params, classifier.published)
    model, about_weights = classifier.loaded(params, seed)
    module = network.Extractor(classifier.strip(model), transform).eval()
    name = f"{classifier.library} {classifier.name}"
    about = {
        "network": name,
        "weights": about_weights,
        "transform": transform.about(),
        "dimensions": network.dimensions(module, transform.image_size, name),
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
