"""The image side of a pretrained pair (CLIP, SigLIP, MobileCLIP, CoCa): any model of open_clip, one vector an image."""

from functools import partial
from pathlib import Path

import numpy as np

from vse_pipe.extract import pair as extract_pair
from vse_pipe.extract.backbone import Backbone
from vse_pipe.extract.backbones.options import OpenClipOptions as Params
from vse_pipe.extract.networks import Extractor
from vse_pipe.extract.pair import transform
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.pictures.transforms import Transform


def build(params: Params, seed: int) -> Backbone:
    """What open_clip's ``encode_image`` gives for the pixels that its own preprocessing gives.

    Differs: pictures are turned upright and put on white first, as everywhere here. Raises as ``model.load``, UsageError for
    preprocessing that pads or whose crop is no square.
    """
    pair = extract_pair.load(params, seed)
    preprocessing = transform(pair.preprocessing, params.model)
    about = {**pair.about, "transform": preprocessing.about(), "dimensions": pair.dimensions}
    module = Extractor(extract_pair.Tower(pair.model, "image"), preprocessing).eval()
    libraries = ("torch", "pillow", "timm", "open_clip_torch")
    return Backbone(partial(_read, preprocessing), module, about, libraries, params.precision)


def _read(preprocessing: Transform, root: Path, item: Item) -> np.ndarray:
    return images.pixels(root, item, preprocessing)
