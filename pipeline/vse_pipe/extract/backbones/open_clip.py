"""The image side of a pretrained pair (CLIP, SigLIP, MobileCLIP, CoCa), one vector an image."""

import copy
from functools import partial

from vse_pipe.extract import pair as extract_pair
from vse_pipe.extract.backbones.options import OpenClipOptions as Params
from vse_pipe.extract.job import Backbone
from vse_pipe.extract.networks import Extractor
from vse_pipe.extract.pair import Tower
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Transform


def build(params: Params, seed: int) -> Backbone:
    """The vectors of open_clip's ``encode_image`` after its own preprocessing.

    Differs: pictures are turned upright and put on white first, as in every backbone. Raises as
    ``pair.load``, UsageError for preprocessing that pads or whose crop is no square."""
    return of_pair(extract_pair.load(params, seed), params)


def of_pair(pair: extract_pair.Pair, params: Params) -> Backbone:
    """As ``build``; the text side of the model is removed."""
    preprocessing = extract_pair.transform(pair.preprocessing, params.model)
    about = {**pair.about, "transform": preprocessing.about(), "dimensions": pair.dimensions}
    module = Extractor(extract_pair.Tower(pair.model, "image"), preprocessing).eval()
    libraries = ("torch", "pillow", "timm", "open_clip_torch")
    return Backbone(partial(images.pixels, transform=preprocessing), module, about, libraries, params.precision)


def both(params: Params, seed: int) -> tuple[Backbone, Tower, dict]:
    """The image side, the text side, and what ``restored`` needs beside the first's description."""
    pair = extract_pair.load(params, seed)
    text = Tower(copy.deepcopy(pair.model), "text")
    architecture = {"model_cfg": pair.config, "preprocess_cfg": pair.preprocessing}
    return of_pair(pair, params), text, {"architecture": architecture, "logit": pair.about["logit"]}


def restored(described: dict, transform: Transform) -> tuple[Extractor, Tower, int]:
    """Both sides of a described pair with arbitrary weights, and the width of its vectors."""
    content = described["architecture"]
    model = extract_pair.built(content, described["network"].removeprefix("open_clip "), 0).eval()
    text = Tower(copy.deepcopy(model), "text")
    return Extractor(Tower(model, "image"), transform).eval(), text, content["model_cfg"]["embed_dim"]
