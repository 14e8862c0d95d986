"""Inception-ResNet-v2 as timm publishes it."""

import urllib.error
from pathlib import Path

import pytest
import torch

from tests.extract.project import NOTHING
from vse_pipe.core.errors import MissingResource
from vse_pipe.extract import networks
from vse_pipe.extract.backbones import inception_resnet_v2


def test_1536_features_at_299_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list = []
    monkeypatch.setattr(networks, "assemble", lambda classifier, params, seed: given.append(classifier) or NOTHING)
    params = inception_resnet_v2.Params(weights="random")
    inception_resnet_v2.build(params, 1)
    classifier = given[0]
    assert classifier.source is None
    found = networks.resolve(params, classifier.published)
    assert (found.image_size, found.resize, found.mean, found.std) == (299, 333, (0.5,) * 3, (0.5,) * 3)
    with torch.device("meta"), torch.inference_mode():
        assert classifier.strip(classifier.make().eval())(torch.empty(2, 3, 299, 299)).shape == (2, 1536)


def test_the_whole_digest_is_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(url: str):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("torch.hub.urlopen", unreachable)
    with pytest.raises(
        MissingResource,
        match=r"sha256 dbea26b13a5fc8351919fed6a94222c0577ce324b2765fd081a798f837ca9d72\) and put it at",
    ):
        inception_resnet_v2.build(inception_resnet_v2.Params(), 1)
