"""Karpathy's layout: ``dataset_<name>.json`` beside a folder of images (Flickr8k, Flickr30k, COCO).

Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments for Generating Image Descriptions", CVPR 2015; its splits are
those of VSE++, SCAN, HAL and L2RM. The caption is ``raw``; ``tokens`` is not read. The authors' repositories keep the
first 5 captions of the COCO images that have 6 or 7: that is ``max_captions: 5``, while the default keeps all.
"""

from pydantic import PositiveInt

from pipeline.core.strict import Strict


class Params(Strict):
    images: str = "images"
    """the folder of images, relative to the folder of the json"""
    max_captions: PositiveInt | None = None
    """the first so many of each image"""
    include_restval: bool = True
    """COCO's ``restval`` images count as train"""
