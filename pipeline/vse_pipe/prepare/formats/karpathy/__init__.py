"""Karpathy's layout: ``dataset_<name>.json`` beside a folder of images (Flickr8k, Flickr30k, COCO).

Karpathy and Fei-Fei, "Deep Visual-Semantic Alignments for Generating Image Descriptions", CVPR 2015; its splits are
those of VSE++, SCAN, HAL and L2RM. The caption is ``raw``; ``tokens`` is not read. The authors' repositories keep the
first 5 captions of the COCO images that have 6 or 7: that is ``max_captions: 5``, while the default keeps all.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles


class Params(Strict):
    images: str = "images"
    """the folder of images, relative to the folder of the json"""
    max_captions: PositiveInt | None = None
    """the first so many of each image"""
    include_restval: bool = True
    """COCO's ``restval`` images count as train"""

    def reads(self, source: Path) -> list[SourceFiles]:
        """The json, and the pictures that it names."""
        inside = sorted(source.glob("dataset_*.json"))
        # Where it is missing, the folder tells when it comes.
        document, folder = (inside[0] if inside else source, source) if source.is_dir() else (source, source.parent)
        pictures = SourceFiles(folder / self.images, listed_in=(document,), names=lambda: _named(document))
        return [SourceFiles(source, patterns=("dataset_*.json",)), pictures]


def _named(document: Path) -> Iterator[str]:
    """The pictures of its entries. Raises ValueError, LookupError or TypeError for another layout."""
    for entry in json.loads(document.read_bytes().removeprefix(b"\xef\xbb\xbf"))["images"]:
        yield f"{entry['filepath']}/{entry['filename']}" if entry.get("filepath") else entry["filename"]
