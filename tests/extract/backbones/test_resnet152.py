"""ResNet-152 as VSE++ uses it."""

import pytest
import torch

from tests.extract.project import NOTHING
from vse_pipe.extract import networks
from vse_pipe.extract.backbones import resnet152


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> list:
    """What ``build`` hands over, without building sixty million random numbers."""
    given: list = []
    monkeypatch.setattr(networks, "assemble", lambda *all_of_it: given.append(all_of_it) or NOTHING)
    return given


def test_weights_and_transform(assembled: list) -> None:
    params = resnet152.Params()
    resnet152.build(params, 3)
    classifier, given, seed = assembled[0]
    assert (given, seed) == (params, 3)
    assert classifier.source.url == "https://download.pytorch.org/models/resnet152-f82ba261.pth"
    found = networks.resolve(params, classifier.published)
    assert (found.image_size, found.resize, found.interpolation, found.crops) == (224, 256, "bilinear", "center")
    assert params.normalise


def test_the_older_weights(assembled: list) -> None:
    resnet152.build(resnet152.Params(weights="IMAGENET1K_V1"), 1)
    assert assembled[0][0].source.file == "resnet152-394f9c45.pth"


def test_2048_pooled_features(assembled: list) -> None:
    resnet152.build(resnet152.Params(weights="random"), 1)
    classifier = assembled[0][0]
    with torch.device("meta"), torch.inference_mode():
        model = classifier.make().eval()
        logits = model(torch.empty(2, 3, 224, 224))
        assert logits.shape == (2, 1000)
        assert classifier.strip(model)(torch.empty(2, 3, 224, 224)).shape == (2, 2048)
