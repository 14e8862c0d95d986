"""The region proposal network of torchvision's Faster R-CNN."""

from functools import partial

import numpy as np
import torch

from vse_pipe.core import devices
from vse_pipe.pictures import detector
from vse_pipe.prepare.proposals.options import RpnOptions as Params
from vse_pipe.prepare.regions import Picture, Proposed, Proposer


def proposer(params: Params, count: int, seed: int, device: str = "auto") -> Proposer:
    """The proposals in the order of their objectness, after the network's own suppression
    (rpn_nms_thresh, 0.7), in float32. Source: Ren et al., Faster R-CNN, NeurIPS 2015; differs: a
    feature pyramid, and torchvision's weights for COCO.

    device: as of ``vse_pipe.core.devices.resolve_device``; the boxes of a device are always the
    same. Raises as that function and ``detector.build``."""
    sizes = params.shorter, params.longer
    where = devices.resolve_device(device)
    network, _ = detector.build(params.detector, params.weights, params.sha256, params.detector_args, sizes, seed)
    return partial(_proposed, network.to(where), where)


def _proposed(network: detector.Detector, device: torch.device, picture: Picture) -> Proposed:
    pixels = torch.from_numpy(np.array(picture.load())).to(device)
    with devices.inference(device, "float32"):
        boxes = network.proposals(pixels.permute(2, 0, 1).float() / 255)
    # x2 - x1 is the width there.
    corners = boxes.double().cpu().numpy() - np.array([0.0, 0.0, 1.0, 1.0])
    return Proposed(corners, np.linspace(1, 0, len(corners), endpoint=False))
