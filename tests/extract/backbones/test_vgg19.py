"""VGG-19's fc7, after its ReLU and without dropout."""

import pytest
import torch
from torch import nn

from tests.extract.project import NOTHING
from vse_pipe.extract import networks
from vse_pipe.extract.backbones import vgg19


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> list:
    given: list = []
    monkeypatch.setattr(networks, "assemble", lambda *all_of_it: given.append(all_of_it) or NOTHING)
    return given


def test_weights_and_transform(assembled: list) -> None:
    params = vgg19.Params(crops="ten")
    vgg19.build(params, 1)
    classifier = assembled[0][0]
    assert classifier.source.file == "vgg19-dcbb9e9d.pth"
    found = networks.resolve(params, classifier.published)
    assert (found.image_size, found.resize, found.interpolation, found.crops) == (224, 256, "bilinear", "ten")


def test_wang_et_al_scale_without_keeping_the_aspect_ratio(assembled: list) -> None:
    params = vgg19.Params(resize_mode="exact", resize=256)
    vgg19.build(params, 1)
    found = networks.resolve(params, assembled[0][0].published)
    assert found._scaled(640, 200) == (256, 256)


def test_fc7_is_what_classifier_without_its_last_layer_gives(assembled: list) -> None:
    vgg19.build(vgg19.Params(weights="random"), 1)
    classifier = assembled[0][0]
    with torch.device("meta"):
        model = classifier.make().eval()
        features = classifier.strip(model)
        assert features(torch.empty(2, 3, 224, 224)).shape == (2, 4096)
    kinds = [type(layer) for layer in features.classifier]
    assert kinds == [nn.Linear, nn.ReLU, nn.Dropout, nn.Linear, nn.ReLU, nn.Dropout, nn.Identity]
    assert not features.classifier[5].training
