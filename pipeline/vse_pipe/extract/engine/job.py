"""What one extraction has to do, decided before the first image is read."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import images, joins
from vse_pipe.extract.engine import fingerprint
from vse_pipe.extract.engine.backbone import Backbone
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import BACKBONES


@runtime_checkable
class RowSource(Protocol):
    """Where rows lie that an earlier call computed."""

    def array(self, name: str) -> np.ndarray | None:
        """``features``, ``boxes`` or ``scores``, by row; None where there are none."""


@dataclass(frozen=True)
class Reused:
    """Rows that earlier calls computed. number: int64 (N,), for each image of the job which of the sources has its row, -1 where none
    has; row: int64 (N,), the row there."""

    sources: tuple[RowSource, ...]
    number: np.ndarray
    row: np.ndarray

    @property
    def count(self) -> int:
        return int((self.number >= 0).sum())


@dataclass(frozen=True)
class Job:
    """The shards of an extraction: shard k is the k-th ``size`` of the rows of images.parquet that are to be computed,
    whatever computes it.

    table: image_id, file and sha256 of every image, as columns: a million images are 100 MB. size: a whole number of
    batches, so that resuming and sharing never change a batch. about: what the features follow from. backbone: None in a
    process that computes nothing. reused: None where all rows are to be computed.
    """

    node: FeatureSet
    seed: int
    about: dict
    table: pa.Table
    where: Path
    backbone: Backbone | None = None
    reused: Reused | None = None

    @cached_property
    def todo(self) -> np.ndarray:
        """int64, the rows of images.parquet that are to be computed."""
        return np.arange(self.table.num_rows) if self.reused is None else np.flatnonzero(self.reused.number < 0)

    @cached_property
    def contents(self) -> pa.Array:
        """As of ``contents.of``; null throughout where a row follows from more than the picture."""
        by_content = BACKBONES.traits(self.node.backbone.name).by_content
        return joins.of(self.table) if by_content else pa.nulls(self.table.num_rows, pa.string())

    @property
    def size(self) -> int:
        batch = self.node.backbone.params.batch_size
        return -(-self.node.backbone.params.shard_size // batch) * batch

    @property
    def count(self) -> int:
        return -(-len(self.todo) // self.size)

    @property
    def root(self) -> Path:
        return images.root(self.table)

    @property
    def digest(self) -> str:
        """Of the features."""
        return fingerprint.digest(self.about)

    @property
    def shards_digest(self) -> str:
        """Of the shards: other sizes, or other rows that are there already, are other shards of the same features."""
        about = {**self.about, "shard_size": self.size}
        if self.reused is not None:
            about["todo"] = _digest(self.todo)
        return fingerprint.digest(about)

    def places(self, number: int) -> np.ndarray:
        """int64, the rows of images.parquet of a shard."""
        return self.todo[number * self.size : (number + 1) * self.size]

    def ids(self, number: int) -> pa.ChunkedArray:
        return self.table["image_id"].take(self.places(number))

    def items(self, number: int) -> list[Item]:
        places = self.places(number)
        rows = self.table.take(places)
        columns = (rows[name].to_pylist() for name in ("image_id", "file", "sha256"))
        wheres = (f"{self.where} row {place}" for place in places.tolist())
        return [Item(*values) for values in zip(*columns, wheres, strict=True)]

    def batches(self, number: int) -> list[list[Item]]:
        items, size = self.items(number), self.node.backbone.params.batch_size
        return [items[start : start + size] for start in range(0, len(items), size)]

    def batch_count(self, number: int) -> int:
        return -(-len(self.places(number)) // self.node.backbone.params.batch_size)

    def manifest(self, number: int) -> dict:
        """What a shard says of itself besides its rows: which images it is of, and what it follows from."""
        ids = self.ids(number)
        return {
            "of": self.count,
            "images": len(ids),
            "contents": list(
                map(list, zip(ids.to_pylist(), self.contents.take(self.places(number)).to_pylist(), strict=True))
            ),
            "about": self.about,
        }


def _digest(numbers: np.ndarray) -> str:
    return hashlib.sha256(numbers.astype("<i8").tobytes()).hexdigest()


def known(node: FeatureSet, seed: int, about: dict) -> Job:
    """A job whose ``about`` an earlier call has found; no network is built."""
    prepared = paths.prepared(node.dataset)
    # In one piece: rows are taken shard by shard, and each time ``take`` would put the pieces together.
    table = images.read(prepared).select(["image_id", "file", "sha256"]).combine_chunks()
    return Job(node, seed, about, table, prepared / images.NAME)


def plan(node: FeatureSet, seed: int, device) -> Job:
    """Reads images.parquet, finds and loads the weights. device: a torch.device. Raises what they raise."""
    from vse_pipe.core import devices

    job = known(node, seed, {})
    backbone = BACKBONES.load(node.backbone.name).build(node.backbone.params, seed)
    resolved = devices.resolve_precision(backbone.precision, device)
    return replace(job, about=fingerprint.describe(node, backbone, device.type, resolved), backbone=backbone)
