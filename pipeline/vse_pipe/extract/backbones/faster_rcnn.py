"""Regions (bottom-up attention): boxes of Faster R-CNN, features of a classifier's last block."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int32, Int64, UInt8
from PIL import Image
from torch import Tensor, nn
from torchvision import models
from torchvision.ops import nms, roi_align

from vse_pipe.core.errors import UsageError
from vse_pipe.extract import networks
from vse_pipe.extract.backbones.options import FasterRcnnOptions as Params
from vse_pipe.extract.backbones.options import ImageParams
from vse_pipe.extract.job import Backbone, Output
from vse_pipe.pictures import detector as detectors
from vse_pipe.pictures import images

# Thresholds of suppression, tried in turn until enough boxes stay (py-bottom-up-attention).
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# The stride of the feature map, and the bins along each side of a box.
_STRIDE, _BINS = 16, 14


def build(params: Params, seed: int) -> Backbone:
    """(regions, 2048) for resnet101, boxes in pixels of the upright image and the detector's
    scores, best first.

    Boxes: each proposal of the detector gives the box of its best class. Non-maximum suppression
    over all classes uses the first of the thresholds 0.3, 0.4, ... 0.9 that leaves enough boxes;
    the best ``regions`` by score are taken. When 0.9 leaves too few, the best suppressed boxes fill
    up. When there are too few proposals (pictures of a few pixels), the whole picture fills up, with
    score 0. Features: RoIAlign, 14 x 14 on the map of stride 16 (layer3),
    through layer4, and the mean.

    Differs from Anderson et al. (CVPR 2018): a detector of COCO's 80 classes with a feature pyramid
    instead of Visual Genome's 1600 classes and attributes, regressed boxes instead of the
    proposals, a trunk that was trained on ImageNet and never on boxes, RoIAlign instead of RoI
    pooling. The relaxed suppression is that of py-bottom-up-attention.

    Raises UnknownMember and UsageError for unknown networks; else what weights and states raise."""
    sizes, file = (params.shorter, params.longer), (params.detector_weights, params.detector_sha256)
    detector, weights = detectors.build(params.detector, *file, params.detector_args, sizes, seed)
    trunk, about = _trunk(params, seed)
    with torch.inference_mode():
        dimensions = trunk.eval()(torch.zeros(3, 64, 64), torch.tensor([[0.0, 0.0, 64.0, 64.0]])).shape[1]
    return Backbone(
        read=partial(_read, params.shorter, params.longer),
        module=Regions(detector, trunk, params.regions).eval(),
        about={
            "network": f"torchvision {params.trunk} on boxes of {params.detector}",
            "detector_weights": weights.about,
            "regions": params.regions,
            "dimensions": dimensions,
            **about,
        },
        libraries=("torch", "pillow", "torchvision"),
        precision=params.precision,
    )


class Trunk(nn.Module):
    """Features of boxes: RoIAlign on the map of stride 16, the last block, the mean over places."""

    mean: Tensor
    std: Tensor

    def __init__(self, stem: nn.Module, head: nn.Module, mean, std) -> None:
        super().__init__()
        self.stem, self.head = stem, head
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1), persistent=False)

    def forward(
        self, picture: Float[Tensor, "3 height width"], boxes: Float[Tensor, "regions 4"]
    ) -> Float[Tensor, "regions dim"]:
        """picture: in 0..1; boxes: in its pixels. A bin of 14 x 14 has a sample for each place."""
        feature_map = self.stem(((picture - self.mean) / self.std)[None]).float()
        regions = roi_align(feature_map, [boxes], _BINS, 1 / _STRIDE, sampling_ratio=-1, aligned=True)
        return self.head(regions).float().mean(dim=(2, 3))


class Regions(nn.Module):
    """Pictures on canvases (B, L, L, 3) uint8 and sizes (B, 4), width and height as scaled and of
    the image, to ``Output``.

    Pictures are cut from their canvases and computed one by one, so no image depends on the others
    of its batch."""

    def __init__(self, detector: nn.Module, trunk: Trunk, count: int) -> None:
        super().__init__()
        self.detector, self.trunk, self.count = detector, trunk, count

    def forward(self, canvases: UInt8[Tensor, "images side side 3"], sizes: Int32[Tensor, "images 4"]) -> Output:
        pairs = zip(canvases, sizes.tolist(), strict=True)
        outputs = [self._regions(canvas[:high, :wide], width, height) for canvas, (wide, high, width, height) in pairs]
        return Output(*(torch.stack(values) for values in zip(*outputs, strict=True)))

    def _regions(self, pixels: UInt8[Tensor, "height width 3"], width: int, height: int) -> tuple[Tensor, ...]:
        picture = pixels.permute(2, 0, 1).float() / 255
        high, wide = picture.shape[1:]
        with torch.autocast(picture.device.type, enabled=False):
            boxes, scores = self.detector(picture)
            chosen = relaxed_nms(boxes, scores, self.count)
            boxes, scores = filled(boxes[chosen], scores[chosen], self.count, float(wide), float(high))
        return self.trunk(picture, boxes), boxes * boxes.new_tensor([width / wide, height / high] * 2), scores


def _trunk(params: Params, seed: int) -> tuple[Trunk, dict]:
    weights = ImageParams(weights=params.weights, sha256=params.sha256)
    classifier = networks.torchvision_classifier(params.trunk, weights, {})
    model, about_weights = classifier.loaded(weights, seed)
    mean, std = list(classifier.published.mean), list(classifier.published.std)
    stem, head = _halves(model.eval(), params.trunk)
    return Trunk(stem, head, mean, std), {"weights": about_weights, "mean": mean, "std": std}


def _halves(model: nn.Module, name: str) -> tuple[nn.Module, nn.Module]:
    """The network to its map of stride 16, and the block after it. Raises UsageError for others."""
    if isinstance(model, models.ResNet):
        stem = (model.conv1, model.bn1, model.relu, model.maxpool, model.layer1, model.layer2, model.layer3)
        return nn.Sequential(*stem), model.layer4
    if isinstance(model, models.MobileNetV2):
        # The last block that halves the map is the fifteenth.
        return model.features[:14], model.features[14:]
    raise UsageError(f"trunk {name} cannot be cut at stride 16; take a resnet, resnext, wide_resnet or mobilenet_v2")


def _read(shorter: int, longer: int, root: Path, item: images.Item) -> tuple[np.ndarray, np.ndarray]:
    image = images.load(root, item)
    scale = min(shorter / min(image.size), longer / max(image.size))
    width, height = (min(longer, max(1, round(side * scale))) for side in image.size)
    size = width, height
    canvas = np.zeros((longer, longer, 3), np.uint8)
    canvas[: size[1], : size[0]] = np.asarray(image.resize(size, Image.Resampling.BILINEAR))
    return canvas, np.array([*size, *image.size], np.int32)


def relaxed_nms(
    boxes: Float[Tensor, "boxes 4"],
    scores: Float[Tensor, " boxes"],
    count: int,
    thresholds: tuple[float, ...] = THRESHOLDS,
) -> Int64[Tensor, " chosen"]:
    """The places of ``count`` chosen boxes, or of all boxes if there are fewer, by falling score
    and then by place.

    Greedy non-maximum suppression over all classes: a box is suppressed when its overlap
    (intersection over union) with a better remaining box is above the threshold. The first
    threshold that leaves ``count`` boxes decides, and the best ``count`` are taken
    (py-bottom-up-attention). When the last threshold leaves fewer, the best suppressed boxes fill
    up. boxes: x1, y1, x2, y2, each of positive area."""
    order = scores.argsort(descending=True, stable=True)
    # Overlaps in double: in single, rounding decides whether 3/10 is above 0.3.
    ranked, falling = boxes[order].double(), -torch.arange(len(order), device=boxes.device).double()
    order, chosen = order.to(ranked.device), torch.arange(0, device=ranked.device)
    for threshold in thresholds:
        chosen = nms(ranked, falling, threshold)
        if len(chosen) >= count:
            return order[chosen[:count]]
    rest = torch.ones(len(order), dtype=torch.bool, device=ranked.device)
    rest[chosen] = False
    filled_up = torch.cat([chosen, rest.nonzero()[: count - len(chosen), 0]])
    return order[filled_up.sort().values]


def filled(
    boxes: Float[Tensor, "boxes 4"], scores: Float[Tensor, " boxes"], count: int, width: float, height: float
) -> tuple[Float[Tensor, "count 4"], Float[Tensor, " count"]]:
    """Exactly ``count`` boxes; missing ones are the whole picture with score 0."""
    missing = max(0, count - len(boxes))
    extra = boxes.new_tensor([[0.0, 0.0, width, height]]).expand(missing, 4)
    return torch.cat([boxes, extra])[:count], torch.cat([scores, scores.new_zeros(missing)])[:count]
