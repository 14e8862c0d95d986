"""What one extraction has to do, decided before the first image is read."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from pipeline.artifacts import images
from pipeline.extract.engine import fingerprint
from pipeline.extract.engine.backbone import Backbone
from pipeline.pictures.images import Item
from pipeline.project import paths
from pipeline.project.params.typed import FeatureSet
from pipeline.project.registry import BACKBONES


@dataclass(frozen=True)
class Job:
    """The shards of an extraction: shard k is the k-th ``size`` rows of images.parquet, whatever computes it.

    table: image_id, file and sha256 of every image, as columns: a million images are 100 MB. size: a whole number of
    batches, so that resuming and sharing never change a batch. about: what the features follow from. backbone: None in a
    process that computes nothing.
    """

    node: FeatureSet
    seed: int
    about: dict
    table: pa.Table
    where: Path
    backbone: Backbone | None = None

    @property
    def size(self) -> int:
        batch = self.node.backbone.params.batch_size
        return -(-self.node.backbone.params.shard_size // batch) * batch

    @property
    def count(self) -> int:
        return -(-self.table.num_rows // self.size)

    @property
    def root(self) -> Path:
        return images.root(self.table)

    @property
    def digest(self) -> str:
        """Of the features."""
        return fingerprint.digest(self.about)

    @property
    def shards_digest(self) -> str:
        """Of the shards: other sizes are other shards of the same features."""
        return fingerprint.digest({**self.about, "shard_size": self.size})

    def ids(self, number: int) -> pa.ChunkedArray:
        return self.table["image_id"].slice(number * self.size, self.size)

    def items(self, number: int) -> list[Item]:
        start = number * self.size
        rows = self.table.slice(start, self.size)
        ids, names, digests = (rows[name].to_pylist() for name in ("image_id", "file", "sha256"))
        return [
            Item(image_id, file, digest, f"{self.where} row {place}")
            for place, (image_id, file, digest) in enumerate(zip(ids, names, digests, strict=True), start)
        ]

    def batches(self, number: int) -> list[list[Item]]:
        items, size = self.items(number), self.node.backbone.params.batch_size
        return [items[start : start + size] for start in range(0, len(items), size)]

    def batch_count(self, number: int) -> int:
        return -(-len(self.ids(number)) // self.node.backbone.params.batch_size)

    def manifest(self, number: int) -> dict:
        """What a shard says of itself besides its rows: which images it is of, and what it follows from."""
        ids = self.ids(number)
        digest = hashlib.sha256(ids.to_numpy().astype("<i8").tobytes()).hexdigest()
        return {"of": self.count, "images": len(ids), "image_ids_sha256": digest, "about": self.about}


def known(node: FeatureSet, seed: int, about: dict) -> Job:
    """A job whose ``about`` an earlier call has found; no network is built."""
    prepared = paths.prepared(node.dataset)
    table = images.read(prepared).select(["image_id", "file", "sha256"])
    return Job(node, seed, about, table, prepared / images.NAME)


def plan(node: FeatureSet, seed: int, device) -> Job:
    """Reads images.parquet, finds and loads the weights. device: a torch.device. Raises what they raise."""
    from pipeline.core import precision

    job = known(node, seed, {})
    backbone = BACKBONES.load(node.backbone.name).build(node.backbone.params, seed)
    resolved = precision.resolve(backbone.precision, device)
    return replace(job, about=fingerprint.describe(node, backbone, device.type, resolved), backbone=backbone)
