"""torchvision's Faster R-CNN as a source of boxes: one box a proposal, before any suppression."""

import inspect
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torchvision import models
from torchvision.models import detection
from torchvision.ops import boxes as box_ops

from vse_pipe.core import devices, weights
from vse_pipe.core.errors import UnknownMember, UsageError, unknown
from vse_pipe.core.weights import Weights, WeightsFile, source_of


class Detector(nn.Module):
    """A picture (3, H, W) in 0..1 -> boxes (N, 4) in pixels and scores (N,)."""

    # torchvision finds its parts by name.
    net: Any

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(
        self, picture: Float[Tensor, "3 height width"]
    ) -> tuple[Float[Tensor, "proposals 4"], Float[Tensor, " proposals"]]:
        """Boxes of less than a pixel are omitted; their overlap is undefined."""
        batch, maps, proposals = self._proposed(picture)
        heads = self.net.roi_heads
        logits, changes = heads.box_predictor(heads.box_head(heads.box_roi_pool(maps, proposals, batch.image_sizes)))
        # The first class is the background.
        scores, classes = logits.float().softmax(dim=1)[:, 1:].max(dim=1)
        class_boxes = heads.box_coder.decode(changes.float(), proposals)
        boxes = class_boxes[torch.arange(len(class_boxes), device=class_boxes.device), classes + 1]
        boxes = box_ops.clip_boxes_to_image(boxes, batch.image_sizes[0])
        boxes = _back(boxes, batch, picture)
        large = box_ops.remove_small_boxes(boxes, 1.0)
        return boxes[large], scores[large]

    def proposals(self, picture: Float[Tensor, "3 height width"]) -> Float[Tensor, "proposals 4"]:
        """The boxes of the region proposal network, best first, after suppression."""
        batch, _, boxes = self._proposed(picture)
        return _back(boxes[0], batch, picture)

    def _proposed(self, picture: Tensor) -> tuple[Any, Any, list[Tensor]]:
        """The picture as the network has it, its maps, and the proposals in its pixels."""
        batch, _ = self.net.transform([picture])
        maps = self.net.backbone(batch.tensors)
        proposals, _ = self.net.rpn(batch, maps)
        return batch, maps, proposals


def _back(boxes: Tensor, batch: Any, picture: Tensor) -> Tensor:
    """From the pixels of the network to those of the picture."""
    (high, wide), (height, width) = batch.image_sizes[0], picture.shape[1:]
    return boxes * boxes.new_tensor([width / wide, height / high] * 2)


def names() -> list[str]:
    """The detectors with a box for each class and without masks or key points."""
    return [name for name in models.list_models(module=detection) if name.startswith("fasterrcnn_")]


def build(
    name: str, published: str, sha256: str | None, arguments: dict, sizes: tuple[int, int], seed: int
) -> tuple[Detector, Weights]:
    """published, sha256: of its weights, as of ``weights.locate``; sizes: shorter and longest side of the pictures
    it will see.

    Raises UnknownMember for an unknown Faster R-CNN of torchvision and for unknown weights,
    UsageError for unknown arguments, and the errors of ``weights.locate`` and
    ``devices.read_weights``.
    """
    if name not in names():
        raise UnknownMember(unknown("detector", name, names()))
    source = weights.locate(published, sha256, _source(name, published), seed)
    net = devices.seeded(lambda: _network(name, arguments, sizes), seed, "torchvision", name)
    if source.path is not None:
        devices.load_weights(net, devices.read_weights(source.path), source.path)
    if name == "fasterrcnn_resnet50_fpn" and published == "COCO_V1":
        # torchvision uses these published weights with an eps of 0 in its frozen batch
        # normalisation.
        for layer in net.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.eps = 0.0
    return Detector(net.eval()), source


def _network(name: str, arguments: dict, sizes: tuple[int, int]) -> nn.Module:
    fixed = {"weights": None, "weights_backbone": None, "min_size": sizes[0], "max_size": sizes[1]}
    # torchvision's detectors accept any other name silently.
    accepted = inspect.signature(detection.FasterRCNN).parameters.keys() - {"kwargs"} - fixed.keys()
    if rejected := sorted(arguments.keys() - accepted):
        raise UsageError(f"detector_args cannot set {', '.join(rejected)}; they may be {', '.join(sorted(accepted))}")
    try:
        return models.get_model(name, **fixed, **arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"torchvision {name} does not take detector_args {arguments}: {error}") from error


def _source(name: str, weights_name: str) -> WeightsFile | None:
    entries = models.get_model_weights(name)
    if weights_name in entries.__members__:
        return source_of(entries[weights_name].url)
    if weights_name.isupper() or weights_name == "imagenet":
        raise UnknownMember(unknown(f"weights of torchvision {name}", weights_name, list(entries.__members__)))
    return None
