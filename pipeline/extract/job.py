"""What one extraction has to do, decided before the first image is read."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import torch

from pipeline import paths
from pipeline.artifacts import images
from pipeline.extract import fingerprint, precision
from pipeline.extract.backbones._backbone import Backbone, Item
from pipeline.extract.params import FeatureParams
from pipeline.params.typed import FeatureSet
from pipeline.registry import BACKBONES

_PART = 256


@dataclass(frozen=True)
class Job:
    """blocks: the images of each part, in the order of images.parquet; about: what the features follow from, and
    digest, its fingerprint. A block is a whole number of batches, so that resuming never changes a batch.
    """

    backbone: Backbone
    params: FeatureParams
    root: Path
    blocks: list[list[Item]]
    device: torch.device
    about: dict
    digest: str

    def batches(self, skip: set[int]) -> list[tuple[int, list[Item]]]:
        """(block, images) for every batch of every block that is not in ``skip``."""
        size = self.params.batch_size
        return [
            (number, block[start : start + size])
            for number, block in enumerate(self.blocks)
            if number not in skip
            for start in range(0, len(block), size)
        ]


def plan(node: FeatureSet, seed: int, device: torch.device) -> Job:
    """Reads images.parquet, finds and loads the weights. Raises what they raise."""
    prepared = paths.prepared(node.dataset)
    table = images.read(prepared)
    params = node.backbone.params
    backbone = BACKBONES.load(node.backbone.name).build(params, seed)
    about = fingerprint.describe(node, backbone, device, precision.resolve(backbone.precision, device))
    size = max(1, _PART // params.batch_size) * params.batch_size
    items = _items(table, prepared / images.NAME)
    blocks = [items[start : start + size] for start in range(0, len(items), size)]
    return Job(backbone, params, images.root(table), blocks, device, about, fingerprint.digest(about))


def _items(table: pa.Table, path: Path) -> list[Item]:
    columns = [table[name].to_pylist() for name in ("image_id", "file", "sha256")]
    return [Item(*row, f"{path} row {number}") for number, row in enumerate(zip(*columns, strict=True))]
