"""What a detector proposes before it knows a class."""

from functools import partial

import numpy as np
import torch

from pipeline.core import precision
from pipeline.core.device import resolve
from pipeline.pictures import detector
from pipeline.pictures.detector import Detector
from pipeline.prepare.engine.regions.proposing import Proposed, Proposer, Seen
from pipeline.prepare.proposals.rpn import Params


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """The proposals in the order of their objectness, after the network's own suppression (rpn_nms_thresh, 0.7), in float32.
    Source: Ren et al., Faster R-CNN, NeurIPS 2015; differs: a feature pyramid, and torchvision's weights, of COCO.

    device: as of ``pipeline.core.device.resolve``; on any of them the same boxes every time. Raises what that and
    ``detector.build`` raise.
    """
    sizes = params.shorter, params.longer
    where = resolve(device)
    network, _ = detector.build(params.detector, params, params.detector_args, sizes, seed)
    return partial(_proposed, network.to(where), where)


def _proposed(network: Detector, device: torch.device, seen: Seen) -> Proposed:
    pixels = torch.from_numpy(np.array(seen.load())).to(device)
    with precision.inference(device, "float32"):
        boxes = network.proposals(pixels.permute(2, 0, 1).float() / 255)
    return Proposed.ranked(boxes.double().cpu().numpy())
