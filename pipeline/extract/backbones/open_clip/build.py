"""A model's image tower, with its own preprocessing."""

from functools import partial
from pathlib import Path

import numpy as np

from pipeline.core.errors import UsageError
from pipeline.extract.backbones.open_clip import Params
from pipeline.extract.engine.backbone import Backbone
from pipeline.extract.engine.network import Extractor
from pipeline.extract.pair import model
from pipeline.pictures import images
from pipeline.pictures.images import Item
from pipeline.pictures.transforms import Transform

_MODES = {"shortest": "shorter", "squash": "exact"}


def build(params: Params, seed: int) -> Backbone:
    """What open_clip's ``encode_image`` gives for the pixels that its own preprocessing gives.

    Differs: pictures are turned upright and put on white first, as everywhere here. Raises as ``model.load``, UsageError for
    preprocessing that pads or whose crop is no square.
    """
    pair = model.load(params, seed)
    seen = transform(pair.preprocessing, params.model)
    about = {**pair.about, "transform": seen.about(), "dimensions": pair.dimensions}
    module = Extractor(model.Tower(pair.model, "image"), seen).eval()
    libraries = ("torch", "pillow", "timm", "open_clip_torch")
    return Backbone(partial(_read, seen), module, about, libraries, params.precision)


def transform(preprocessing: dict, name: str) -> Transform:
    """open_clip's evaluation transform as ours. preprocessing: as its ``PreprocessCfg``."""
    size, mode = preprocessing["size"], preprocessing["resize_mode"]
    sides = {size} if isinstance(size, int) else set(size)
    if len(sides) != 1 or mode not in _MODES:
        raise UsageError(
            f"open_clip {name} sees pictures of size {size}, resized by '{mode}'; known: squares by {', '.join(_MODES)}"
        )
    side = sides.pop()
    return Transform(
        image_size=side,
        resize=side,
        resize_mode=_MODES[mode],
        interpolation="bilinear" if preprocessing["interpolation"] == "bilinear" else "bicubic",
        crops="center",
        mean=tuple(preprocessing["mean"]),
        std=tuple(preprocessing["std"]),
    )


def _read(seen: Transform, root: Path, item: Item) -> np.ndarray:
    return images.pixels(root, item, seen)
