"""Selective search of OpenCV: segments of a picture, merged into larger and larger ones."""

import ctypes
import threading
from functools import partial
from types import ModuleType

import numpy as np
from PIL import Image

from vse_pipe.core.errors import missing_extra
from vse_pipe.prepare.proposals.options import SelectiveSearchOptions as Params
from vse_pipe.prepare.regions import Picture, Proposed, Proposer

# OpenCV draws the order of the boxes with rand() of the C library, whose state all threads share.
_drawing = threading.Lock()


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """The boxes in OpenCV's order: by a random number times their place in the hierarchy.

    Each picture starts from ``seed``, so its boxes do not depend on other pictures. Source: Uijlings et al., Selective
    Search for Object Recognition, IJCV 2013. Raises MissingResource without OpenCV's contributed modules."""
    return partial(_proposed, _segmentation(), params, seed)


def _segmentation() -> ModuleType:
    try:
        from cv2.ximgproc import segmentation
    except ImportError as error:
        raise missing_extra("proposals selective_search", "opencv-contrib-python-headless", "proposals") from error
    return segmentation


def _proposed(segmentation: ModuleType, params: Params, seed: int, image: Picture) -> Proposed:
    picture = image.load()
    scale = max(1.0, max(picture.size) / params.longer)
    width, height = (max(1, round(side / scale)) for side in picture.size)
    # OpenCV has the channels in the order BGR.
    small = np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR))[:, :, ::-1]
    search = segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(np.ascontiguousarray(small))
    (search.switchToSelectiveSearchFast if params.mode == "fast" else search.switchToSelectiveSearchQuality)()
    with _drawing:
        ctypes.CDLL(None).srand(seed % 2**32)
        boxes = np.asarray(search.process(), dtype=np.float64).reshape(-1, 4)
    edges = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return Proposed.ranked(edges * np.array([image.width / width, image.height / height] * 2))
