"""A detector's boxes with a trunk's features: small networks with random weights, and boxes that are known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.extract import project
from tests.naive import data as naive
from vse_pipe.core.errors import MissingResource, UnknownMember, UsageError
from vse_pipe.extract.backbones import faster_rcnn as _boxes
from vse_pipe.extract.backbones import torchvision
from vse_pipe.extract.backbones.faster_rcnn import Regions, build
from vse_pipe.extract.backbones.options import FasterRcnnOptions as Params
from vse_pipe.extract.job import Backbone
from vse_pipe.pictures import detector
from vse_pipe.pictures.images import Item

DETECTOR = {"detector": "fasterrcnn_mobilenet_v3_large_320_fpn", "detector_weights": "random"}
TRUNK = {"trunk": "resnet18", "weights": "random"}
SMALL = {**DETECTOR, **TRUNK, "shorter": 64, "longer": 96, "regions": 7, "precision": "float32"}


def read(backbone: Backbone, folder: Path, sizes: list[tuple[int, int]]) -> tuple[torch.Tensor, ...]:
    found = []
    for number, size in enumerate(sizes):
        (name,) = project.pictures(folder / str(number), 1, size)
        found.append(backbone.read(folder / str(number), Item(number, name, "", "row 0")))
    return tuple(torch.from_numpy(np.stack(arrays)) for arrays in zip(*found, strict=True))


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return build(Params(**SMALL), seed=1)


def test_shapes_order_boxes_inside_the_picture_and_no_image_depends_on_its_batch(tmp_path: Path, backbone) -> None:
    sizes = [(100, 60), (40, 80), (7, 5)]
    given = read(backbone, tmp_path, sizes)
    with torch.inference_mode():
        found = backbone.module(*given)
        for number in range(2):
            alone = backbone.module(*(part[[number]] for part in given))
            assert all(torch.equal(a[0], b[number]) for a, b in zip(alone, found, strict=True))
    assert found.features.shape == (3, 7, 512)
    assert (backbone.about["regions"], backbone.about["dimensions"]) == (7, 512)
    for (width, height), boxes, scores in zip(sizes, found.boxes, found.scores, strict=True):
        assert (boxes >= 0).all()
        assert (boxes <= torch.tensor([width, height, width, height]) + 1e-3).all()
        assert (boxes[:, 2:] > boxes[:, :2]).all()
        assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    assert torch.isfinite(found.features).all()


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_a_box_around_the_picture_has_the_classifiers_own_feature(name: str) -> None:
    """At 224 pixels each of the 14 x 14 bins is one place of the map, so that RoIAlign changes nothing."""
    trunk, _ = _boxes._trunk(Params(**{**SMALL, "trunk": name}), 4)
    own = torchvision.build(torchvision.Params(model=name, weights="random", image_size=224), seed=4).module
    pixels = torch.randint(0, 256, (1, 224, 224, 3), generator=torch.Generator().manual_seed(0)).byte()
    with torch.inference_mode():
        found = trunk.eval()(pixels[0].permute(2, 0, 1) / 255, torch.tensor([[0.0, 0.0, 224.0, 224.0]]))
        torch.testing.assert_close(found, own(pixels[:, None]), atol=2e-5, rtol=1e-4)


class Known(nn.Module):
    """A detector with always the same boxes."""

    def __init__(self, boxes: list, scores: list) -> None:
        super().__init__()
        self.boxes, self.scores = torch.tensor(boxes).reshape(-1, 4), torch.tensor(scores)

    def forward(self, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.boxes, self.scores


def test_features_are_those_of_the_chosen_boxes_in_order(backbone: Backbone) -> None:
    corners = [[0.0, 0.0, 64.0, 64.0], [16.0, 8.0, 48.0, 40.0], [30.0, 30.0, 60.0, 34.0]]
    chosen = torch.tensor(corners)[[1, 2, 0]]
    module = Regions(Known(corners, [0.2, 0.9, 0.5]), backbone.module.trunk, 3).eval()
    picture = torch.randint(0, 256, (1, 96, 96, 3), generator=torch.Generator().manual_seed(0)).byte()
    with torch.inference_mode():
        found = module(picture, torch.tensor([[64, 64, 128, 32]], dtype=torch.int32))
        expected = backbone.module.trunk(picture[0, :64, :64].permute(2, 0, 1) / 255, chosen)
    assert torch.equal(found.features[0], expected)
    assert found.scores[0].tolist() == pytest.approx([0.9, 0.5, 0.2])
    # Twice as wide and half as high as the network saw it.
    assert found.boxes[0].tolist() == (chosen * torch.tensor([2, 0.5, 2, 0.5])).tolist()


def test_too_few_boxes_are_filled(backbone: Backbone) -> None:
    module = Regions(Known([], []), backbone.module.trunk, 5).eval()
    with torch.inference_mode():
        found = module(torch.zeros(1, 96, 96, 3).byte(), torch.tensor([[60, 40, 30, 20]], dtype=torch.int32))
    assert found.boxes[0, :2].tolist() == [[0, 0, 30, 20], [0, 0, 30, 20]]
    assert not found.scores.any()


def test_proposals_keep_the_box_of_their_best_class(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    """With torchvision's own suppression switched off: its scores of a proposal's classes, the highest of them."""
    net = backbone.module.detector.net
    picture = torch.rand(3, 64, 80, generator=torch.Generator().manual_seed(0))
    for name, value in {"score_thresh": 0.0, "nms_thresh": 2.0, "detections_per_img": 10**6}.items():
        monkeypatch.setattr(net.roi_heads, name, value)
    with torch.inference_mode():
        boxes, scores = backbone.module.detector(picture)
        every = net([picture])[0]
    assert len(boxes) > 7
    assert scores.max() == every["scores"].max()
    known = {tuple(box) for box in every["boxes"].tolist()}
    assert all(tuple(box) in known for box in boxes.tolist())


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"detector": "fasterrcnn_resnet50"}, UnknownMember, "unknown detector 'fasterrcnn_resnet50'; did you mean"),
    ({"detector_weights": "COCO_V2"}, UnknownMember, "'COCO_V2'; did you mean 'COCO_V1'"),
    ({"detector_weights": "no.pth"}, MissingResource, "no.pth: no such weights file"),
    ({"detector_args": {"min_size": 2}}, UsageError, "detector_args cannot set min_size"),
    ({"trunk": "squeezenet1_1"}, UsageError, "trunk squeezenet1_1 cannot be cut at stride 16"),
])  # fmt: skip
def test_refuses(folder: Path, monkeypatch, options: dict, error: type, message: str) -> None:
    if options.keys() & {"trunk", "weights"}:  # what is looked at once there is a detector, which takes long to make
        monkeypatch.setattr(detector, "build", lambda *given: (None, None))
    with pytest.raises(error, match=message):
        build(Params(**{**SMALL, **options}), seed=1)


# Few places and scores, so that overlaps of exactly 0.5, equal boxes and equal scores are common.
BOX = st.tuples(*[st.integers(0, 5)] * 2, *[st.integers(1, 5)] * 2)
SCORED = st.lists(st.tuples(BOX, st.integers(0, 4)), max_size=25)


def tensors(scored: list) -> tuple[torch.Tensor, torch.Tensor]:
    boxes = torch.tensor([[x, y, x + width, y + height] for (x, y, width, height), _ in scored]).reshape(-1, 4).float()
    return boxes, torch.tensor([score / 4 for _, score in scored])


@settings(deadline=None)
@given(SCORED, st.integers(1, 12))
def test_matches_the_loop_with_the_best_box_in_it_and_none_twice(scored: list, count: int) -> None:
    boxes, scores = tensors(scored)
    found = _boxes.relaxed_nms(boxes, scores, count)
    assert found.tolist() == naive.relaxed(boxes.tolist(), scores.tolist(), count, list(_boxes.THRESHOLDS))
    assert len(found) == len(set(found.tolist())) == min(count, len(scored))
    assert scores[found].tolist() == sorted(scores[found].tolist(), reverse=True)
    if scored:
        assert scores[found[0]] == scores.max()
