"""What a backbone is to the stage: rows in, an output a row, or the reason why there is none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from torch import nn  # seconds, which options and completion do not pay

from vse_pipe.pictures.images import Item


class Failure(NamedTuple):
    """An image without features. status: one word or a few, never ``ok``; detail: the reason, for people."""

    image_id: int
    status: str
    detail: str


class Output(NamedTuple):
    """What a batch of B images gives; of a module tensors, later numpy arrays.

    features: (B, D), or (B, R, D) for R regions. boxes: (B, R, 4) float32, x1, y1, x2, y2 of each region in pixels of the
    upright image: edges, so that x2 - x1 is the width and the whole image is (0, 0, width, height). scores: (B, R)
    float32, how sure a detector is of each region.
    """

    features: Any
    boxes: Any = None
    scores: Any = None


@dataclass(frozen=True)
class Backbone:
    """Reads one image at a time and turns batches of them into features.

    read: (image root, item) -> an array whose shape and type are the same for every image, or a tuple of such
    arrays; called from several threads at once; raises InputError naming the file and the image.
    module: tensor (B, ...) of such arrays, for a tuple one argument each -> (B, D), or (B, R, D) for R regions, or
    Output. In eval mode, on the CPU; the stage moves it. about: what the features depend on besides Params, as JSON:
    weights and their digest, the resolved transform. It enters meta.json and the fingerprint. libraries: the
    distributions whose version matters. precision: ``auto``, ``float32`` or ``bfloat16``.
    """

    read: Callable[[Path, Item], np.ndarray | tuple[np.ndarray, ...]]
    module: "nn.Module"
    about: dict = field(default_factory=dict)
    libraries: tuple[str, ...] = ("torch", "pillow")
    precision: str = "float32"
