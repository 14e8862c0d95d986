"""Networks without their classifiers."""

import pytest
import torch
from torch import nn

from vse_pipe.core.errors import UsageError
from vse_pipe.extract.networks import Extractor, dimensions, without_classifier
from vse_pipe.pictures.transforms import Transform

TRANSFORM = Transform(8, 8, "exact", "bilinear", "center", (0.5,) * 3, (0.25,) * 3)


def test_the_last_layer_gives_way() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10))
    images = torch.randn(2, 4)
    expected = model[:2](images)
    assert torch.equal(without_classifier(model, 10)(images), expected)


def test_another_last_layer_is_refused() -> None:
    with pytest.raises(UsageError, match="Sequential: its last layer '0' has 3 outputs, not 1000 classes"):
        without_classifier(nn.Sequential(nn.Linear(4, 3)), 1000)


@pytest.mark.parametrize(
    ("net", "message"),
    [
        (nn.Conv2d(3, 5, 9), "toy does not take images of 8 pixels: .*[Kk]ernel size"),
        (nn.Conv2d(3, 5, 3), r"toy gives features of shape \(5, 6, 6\) for an image, expected one vector"),
    ],
)
def test_a_network_that_gives_no_vector_is_refused(net: nn.Module, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dimensions(Extractor(net, TRANSFORM), 8, "toy")


def test_dimensions() -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten())
    assert dimensions(Extractor(net, TRANSFORM), 8, "toy") == 180
