"""The region proposal network: torchvision's own boxes, in pixels of the picture."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.prepare.proposals._pictures import blocks, proposed, refused, seen
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.weights import Weights
from vse_pipe.pictures import detector
from vse_pipe.prepare.proposals.options import RpnOptions as Params
from vse_pipe.prepare.proposals.rpn import proposer
from vse_pipe.prepare.regions import settled

SMALL = {"detector": "fasterrcnn_mobilenet_v3_large_320_fpn", "shorter": 96, "longer": 200}


@pytest.fixture(scope="module")
def network() -> tuple[detector.Detector, Weights]:
    given = Params(weights="random", **SMALL)
    return detector.build(given.detector, given.weights, given.sha256, {}, (given.shorter, given.longer), 1)


def test_boxes_are_those_of_the_network_scaled_back(tmp_path: Path, network, monkeypatch):
    monkeypatch.setattr(detector, "build", lambda *_: network)
    boxes, _ = proposed("rpn", seen(tmp_path, "a.png", blocks()), 40, weights="random", **SMALL)
    net = network[0].net
    with torch.inference_mode():
        batch, _ = net.transform([torch.from_numpy(blocks()).permute(2, 0, 1).float() / 255])
        found, _ = net.rpn(batch, net.backbone(batch.tensors))
    assert batch.image_sizes[0] != (80, 120)
    scale = np.array([120 / batch.image_sizes[0][1], 80 / batch.image_sizes[0][0]] * 2)
    expected = []
    for x1, y1, x2, y2 in found[0].double().numpy() * scale:
        box = [max(0, np.floor(x1)), max(0, np.floor(y1)), min(119, np.ceil(x2 - 1)), min(79, np.ceil(y2 - 1))]
        if box not in expected and box[2] >= box[0] and box[3] >= box[1]:
            expected.append(box)
    assert np.allclose(boxes, expected[:40])


def test_weights_come_from_a_file_with_a_digest(tmp_path: Path, network, monkeypatch):
    path, net = tmp_path / "own.safetensors", network[0].net
    save_file({key: value.contiguous() for key, value in net.state_dict().items()}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    of = seen(tmp_path, "a.png", blocks())
    here = settled(proposer(Params(weights=str(path), sha256=digest, **SMALL), 9, 99)(of), of, 9)
    refused("rpn", of, "sha256 is", IntegrityError, weights=str(path), sha256="0" * 64, **SMALL)
    monkeypatch.setattr(detector, "build", lambda *_: network)
    there = settled(proposer(Params(weights="random", **SMALL), 9, 1)(of), of, 9)
    assert np.array_equal(here.boxes, there.boxes)
