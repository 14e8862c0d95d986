"""Feature maps as regions: what is pooled, where the cells lie, and what has no map."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.nn import functional
from torchvision import models

from tests.naive import data as naive
from tests.naive import extract as naive_extract
from vse_pipe.core import devices
from vse_pipe.core.errors import UnknownMember, UsageError
from vse_pipe.extract.backbones import grid, random_filters, torchvision
from vse_pipe.extract.backbones import timm as timm_backbone
from vse_pipe.extract.backbones.grid import build
from vse_pipe.extract.backbones.options import GridOptions as Params
from vse_pipe.pictures.images import Item

FILTERS = {"filters": 4, "size": 3, "stride": 2}


def pixels(count: int, side: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, 1, side, side, 3), dtype=np.uint8))


WINDOWS = torch.tensor([[0.0, 0.0, 40.0, 36.0], [5.0, 10.0, 25.0, 30.0]])


@pytest.mark.parametrize("rows", [1, 3])
def test_regions_are_means_of_the_last_map(folder: Path, rows: int) -> None:
    backbone = build(Params(model="resnet18", weights="random", image_size=96, rows=rows, columns=2), seed=1)
    assert backbone.about["map"] == [3, 3]
    assert (backbone.about["regions"], backbone.about["dimensions"]) == (2 * rows, 512)
    given = pixels(2, 96)
    with torch.inference_mode():
        found = backbone.module(given, WINDOWS)
        # The literal network: resnet18's own layers up to the fourth.
        whole = devices.seeded(models.resnet18, 1, "torchvision", "resnet18").eval()
        image = backbone.module.scaled(given[:, 0])
        for name, layer in whole.named_children():
            image = layer(image) if name not in ("avgpool", "fc") else image
    assert image.shape == (2, 512, 3, 3)
    mean = lambda cell: naive_extract.mean([[x] for x in cell])[0]  # noqa: E731
    for number in range(2):
        for dim in (0, 17, 511):
            expected = naive.pooled(image[number, dim].tolist(), rows, 2, mean)
            assert found.features[number, :, dim].tolist() == pytest.approx(expected, abs=1e-5)
    assert found.scores is None
    expected = [naive.cells(rows, 2, 3, 3, window) for window in WINDOWS.tolist()]
    assert found.boxes.numpy() == pytest.approx(np.array(expected), abs=1e-4)


@pytest.mark.parametrize(("member", "options"), [
    (torchvision, {"model": "shufflenet_v2_x0_5", "weights": "random", "image_size": 64}),
    (random_filters, {"image_size": 16, **FILTERS}),
], ids=["torchvision", "random_filters"])  # fmt: skip
def test_one_cell_is_the_pooled_feature(folder: Path, member, options: dict) -> None:
    side = options["image_size"]
    own = {"model": "random_filters", "model_args": FILTERS, "image_size": 16} if member is random_filters else options
    with torch.inference_mode():
        found = build(Params(**own, rows=1, columns=1), seed=3).module(pixels(2, side), WINDOWS).features[:, 0]
        torch.testing.assert_close(found, member.build(member.Params(**options), seed=3).module(pixels(2, side)))


def test_random_filters_have_their_maxima_in_each_cell() -> None:
    backbone = build(Params(model="random_filters", model_args=FILTERS, image_size=16, rows=2, columns=3), seed=1)
    with torch.inference_mode():
        found = backbone.module(pixels(1, 16), WINDOWS[:1])
        responses = backbone.module.net.conv(backbone.module.scaled(pixels(1, 16)[:, 0]))[0]
    both = [*responses.tolist(), *(-responses).tolist()]
    maxima = np.array([naive.pooled(image, 2, 3, max) for image in both]).T
    assert found.features[0].numpy() == pytest.approx(maxima - maxima.mean(axis=1, keepdims=True), abs=1e-5)
    assert backbone.about["dimensions"] == 8


@settings(deadline=None)
@given(*[st.integers(1, 9)] * 2, *[st.integers(9, 20)] * 2)
def test_cells_match_the_loop_and_cover_the_map(rows: int, columns: int, height: int, width: int) -> None:
    found = grid.cells(rows, columns, height, width).numpy()
    assert found == pytest.approx(np.array(naive.cells(rows, columns, height, width, [0, 0, 1, 1])), abs=1e-6)
    covered = np.zeros((height, width), bool)
    for x1, y1, x2, y2 in found:
        covered[round(y1 * height) : round(y2 * height), round(x1 * width) : round(x2 * width)] = True
    assert covered.all()


@pytest.mark.parametrize(("mode", "size", "expected"), [
    ("shorter", (100, 50), (25.0, 0.0, 75.0, 50.0)),
    ("shorter", (30, 60), (0.0, 15.0, 30.0, 45.0)),
    ("exact", (100, 50), (0.0, 0.0, 100.0, 50.0)),
])  # fmt: skip
def test_the_boxes_are_those_of_the_crop_in_the_picture(tmp_path, mode, size, expected) -> None:
    """A picture whose crop is red and whose rest is blue: the window must be where the red is."""
    left, top, right, bottom = (int(edge) for edge in expected)
    picture = np.zeros((size[1], size[0], 3), np.uint8)
    picture[..., 2] = 255
    picture[top:bottom, left:right] = [255, 0, 0]
    Image.fromarray(picture).save(tmp_path / "a.png")
    params = Params(model="random_filters", model_args=FILTERS, image_size=20, resize=20, resize_mode=mode)
    seen, window = build(params, seed=1).read(tmp_path, Item(1, "a.png", "", "row 0"))
    assert window.tolist() == pytest.approx(expected)
    assert (seen[..., 0] > 128).mean() > 0.85


@pytest.mark.parametrize(
    "name", ["densenet121", "googlenet", "squeezenet1_1", "shufflenet_v2_x0_5", "mobilenet_v3_small"]
)
def test_maps_of_other_families(folder: Path, name: str) -> None:
    backbone = build(Params(model=name, weights="random", image_size=64, rows=2, columns=2), seed=1)
    with torch.inference_mode():
        found = backbone.module(pixels(2, 64), WINDOWS).features
    assert found.shape == (2, 4, backbone.about["dimensions"])
    assert torch.isfinite(found).all()
    assert not torch.equal(found[0], found[1])
    assert (name == "squeezenet1_1") <= (found.shape[2] == 512)


@pytest.mark.parametrize(("name", "arguments", "dim", "pooled"), [
    ("resnet18", {"layers": [1, 1, 1, 1]}, 512, True),
    ("vit_tiny_patch16_224", {"depth": 2}, 192, False),
    ("swin_tiny_patch4_window7_224", {"embed_dim": 24, "depths": [1, 1, 1, 1]}, 192, True),
    ("mobilenetv3_small_050", {}, 288, False),
])  # fmt: skip
def test_maps_of_timm(folder: Path, name: str, arguments: dict, dim: int, pooled: bool) -> None:
    given = {"model": name, "weights": "random", "image_size": 224, "model_args": arguments}
    backbone = build(Params(**given, library="timm"), seed=1)
    assert backbone.about["dimensions"] == dim
    assert backbone.libraries == ("torch", "pillow", "timm")
    with torch.inference_mode():
        found = backbone.module(pixels(1, 224), WINDOWS[:1]).features
        if pooled or name.startswith("vit"):
            whole = timm_backbone.build(timm_backbone.Params(**given), seed=1).module
        if pooled:
            torch.testing.assert_close(found.mean(dim=1), whole(pixels(1, 224)), atol=1e-5, rtol=1e-4)
        elif name.startswith("vit"):
            features = whole.net.model.forward_features(backbone.module.scaled(pixels(1, 224)[:, 0]))
            laid_out = features[:, 1:].reshape(1, 14, 14, dim).permute(0, 3, 1, 2)
            assert torch.equal(found, functional.adaptive_avg_pool2d(laid_out, 7).flatten(2).transpose(1, 2))
    assert found.shape == (1, 49, dim)


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"model": "resnet81"}, UnknownMember, "unknown torchvision model 'resnet81'; did you mean 'resnet18'"),
    ({"model": "vit_b_32"}, UsageError, "torchvision vit_b_32 ends with tokens, so it has no map"),
    ({"model": "resnet18", "image_size": 64}, UsageError,
     "a map of 2 x 2 for images of 64 pixels, smaller than the grid of 7 x 7: set rows and columns"),
    ({"model": "resnet18", "image_size": 32}, UsageError, "a map of 1 x 1 for images of 32 pixels"),
    ({"model": "random_filters", "model_args": {"filter": 2}}, UsageError,
     r"random_filters does not take model_args \{'filter': 2\}"),
    ({"model": "random_filters", "image_size": 5}, UsageError, "size 7 is larger than image_size 5"),
    ({"model": "mixer_s32_224", "library": "timm"}, UsageError,
     r"timm \w+ gives features of shape .*, no map for a grid"),
])  # fmt: skip
def test_refuses(folder: Path, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        build(Params(**{"weights": "random", **options}), seed=1)
