"""What a detector proposes before it knows a class."""

from functools import partial

import numpy as np
import torch

from pipeline.core.device import resolve
from pipeline.pictures import detector
from pipeline.pictures.detector import Detector
from pipeline.prepare.engine.regions.proposing import Proposed, Proposer, Seen
from pipeline.prepare.proposals.rpn import Params


def proposer(params: Params, count: int, seed: int) -> Proposer:
    """The proposals in the order of their objectness, after the network's own suppression (rpn_nms_thresh, 0.7), in float32.
    Source: Ren et al., Faster R-CNN, NeurIPS 2015; differs: a feature pyramid, and torchvision's weights, of COCO.

    On a GPU where there is one. Raises what ``detector.build`` raises.
    """
    sizes = params.shorter, params.longer
    network, _ = detector.build(params.detector, params, params.detector_args, sizes, seed)
    device = resolve("auto")
    return partial(_proposed, network.to(device), device)


def _proposed(network: Detector, device: torch.device, seen: Seen) -> Proposed:
    pixels = torch.from_numpy(np.array(seen.load())).to(device)
    with torch.inference_mode():
        boxes = network.proposals(pixels.permute(2, 0, 1).float() / 255)
    return Proposed.ranked(boxes.double().cpu().numpy())
