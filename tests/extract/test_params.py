"""Options of the backbones: what is refused before any work."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.project.registry import BACKBONES

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize(("options", "message"), [
    ({"weights": "imagnet"}, "expected imagenet, random or a path that ends in .pth, .pt, .safetensors"),
    ({"weights": "model.npz"}, "expected imagenet, random or a path"),
    ({"weights": "random", "sha256": "0" * 64}, "random weights have no file"),
    ({"sha256": "f82ba261"}, "should match pattern"),
    ({"image_size": 224, "resize": 200}, "resize 200 is smaller than image_size 224"),
    ({"image_size": 0}, "greater than 0"),
    ({"mean": [0.5, 0.5]}, "at least 3 items"),
    ({"std": [0.5, 0.0, 0.5]}, "greater than 0"),
    ({"crops": "five"}, "'center' or 'ten'"),
    ({"batch_size": "64"}, "valid integer"),
    ({"store": None}, "'float32' or 'float16'"),
    ({"precison": "auto"}, "Extra inputs are not permitted"),
])  # fmt: skip
def test_refuses(options: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ImageParams(**options)


@pytest.mark.parametrize("weights", ["imagenet", "random", "IMAGENET1K_V1", "a/b.pth", "b.pt", "c.safetensors"])
def test_weights(weights: str) -> None:
    assert ImageParams(weights=weights).weights == weights


@pytest.mark.parametrize("name", BACKBONES.names())
def test_every_member_has_the_common_options(name: str) -> None:
    fields = BACKBONES.options(name).model_fields
    assert {"normalise", "store", "batch_size"} <= fields.keys()
    assert all(not field.is_required() for key, field in fields.items() if key not in ("model", "tsv", "weights"))
