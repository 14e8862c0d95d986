"""Networks of pictures have the features of the CPU on a device, and are trained further there."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load

from tests.extract import project
from tests.train import painted
from tests.train.some import files_of
from vse_pipe.artifacts import model_files
from vse_pipe.extract import stage
from vse_pipe.project import paths
from vse_pipe.project.registry import BACKBONES
from vse_pipe.train.stage import train

RANDOM = {"weights": "random", "precision": "float32"}
DETECTOR = {"detector": "fasterrcnn_mobilenet_v3_large_320_fpn", "detector_weights": "random", "trunk": "resnet18"}
NETWORKS = {
    "faster_rcnn": {**RANDOM, **DETECTOR, "shorter": 64, "longer": 96, "regions": 7},
    "grid": {"precision": "float32"},
    "inception_resnet_v2": {**RANDOM, "image_size": 96},
    "random_filters": {},
    "resnet152": {**RANDOM, "image_size": 64},
    "timm": {**RANDOM, "model": "mobilenetv3_small_050", "image_size": 64},
    "torchvision": RANDOM,
    "vgg19": {**RANDOM, "image_size": 32},
}
# bottom_up and precomp read files; open_clip runs on no device yet.
ELSEWHERE = {"bottom_up", "precomp", "open_clip"}


def test_every_backbone_is_run():
    assert NETWORKS.keys() | ELSEWHERE == set(BACKBONES.names())


@pytest.mark.parametrize("name", NETWORKS)
def test_backbones(device, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    _extract_twice(device, tmp_path, name)


def _extract_twice(device: torch.device, tmp_path: Path, name: str) -> None:
    project.prepared(tmp_path / "raw", project.pictures(tmp_path / "raw", 3))
    params, found = project.params(name, **NETWORKS[name], batch_size=2, shard_size=2), []
    # Boxes of random weights score alike, so a GPU's rounding decides which are kept: there it is compared with itself.
    other = device.type if (name, device.type) == ("faster_rcnn", "cuda") else "cpu"
    for where in (device.type, other):
        stage.extract(params, "small", where)
        found.append(np.load(project.OUT / "features.npy").astype(np.float64))
        shutil.rmtree(project.OUT)
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)


def test_a_network_is_trained_further(device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    painted.painted()
    params = painted.extracted(painted.loaded({}, epochs=1))
    (run,), found = params.runs, []
    for where in (device.type, "cpu"):
        train(params, run, where)
        found.append(load(files_of(run)[model_files.MODEL]))
        shutil.rmtree(paths.trained(run))
    assert found[0].keys() == found[1].keys()
    for key, value in found[0].items():
        np.testing.assert_allclose(value, found[1][key], rtol=1e-2, atol=2e-3, err_msg=key)
