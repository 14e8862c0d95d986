"""A backbone, and its job: the images, those that must be computed, and the digest."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import digests, features, images
from vse_pipe.artifacts.features import Features
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.pictures.images import Item
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import BACKBONES

if TYPE_CHECKING:
    from torch import nn


class Output(NamedTuple):
    """The features of a batch of B images: tensors of a module, later numpy arrays.

    features: (B, D), or (B, R, D) for R regions. boxes: (B, R, 4) float32, the edges x1, y1, x2,
    y2 of each region in pixels of the upright image; x2 - x1 is the width, and the whole image is
    (0, 0, width, height). scores: (B, R) float32, the confidence of a detector."""

    features: Any
    boxes: Any = None
    scores: Any = None


@dataclass(frozen=True)
class Backbone:
    """A backbone reads one image at a time and turns batches of them into features.

    read: (image root, item) -> an array whose shape and type are the same for every image, or a
    tuple of such arrays. It is called from several threads at once and raises InputError naming the
    file and the image. module: in eval mode, on the CPU; the stage moves it. It takes tensors (B,
    ...) of these arrays, an argument for each array of a tuple, and returns (B, D), or (B, R, D)
    for R regions, or Output. about: JSON for meta.json and the fingerprint; everything besides
    Params that the features depend on, such as the digest of weights and the resolved transform.
    libraries: distributions whose version matters. precision: ``auto``, ``float32`` or
    ``bfloat16``."""

    read: Callable[[Path, Item], np.ndarray | tuple[np.ndarray, ...]]
    module: "nn.Module"
    about: dict = field(default_factory=dict)
    libraries: tuple[str, ...] = ("torch", "pillow")
    precision: str = "float32"


@dataclass(frozen=True)
class Shard:
    """rows: of the readable images, in the order of images.parquet, None without any; failures:
    why the other images have no features, by image_id."""

    rows: Output | None
    failures: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """The work of an extraction. Shard k is the k-th group of ``size`` rows that must be computed.

    table: image_id, file, sha256 and size of every image; a million images take 120 MB. about:
    everything that the features depend on. reused: int64 (N,), the row of each image in
    ``earlier``, features of the same kind, -1 without one. skips: unreadable pictures are left out.

    ``digest`` says whether finished features are these, ``row_digest`` whether rows of earlier ones
    may be reused, ``shards_digest`` whether finished shards may."""

    node: FeatureSet
    seed: int
    about: dict
    table: pa.Table
    backbone: Backbone
    reused: np.ndarray
    skips: bool = False
    earlier: Features | None = None

    @cached_property
    def todo(self) -> np.ndarray:
        """int64, the rows of images.parquet that must be computed."""
        return np.flatnonzero(self.reused < 0)

    @cached_property
    def contents(self) -> pa.Array:
        """As ``digests.picture_contents``; null when a row depends on more than the picture."""
        if BACKBONES.traits(self.node.backbone.name).by_content:
            return digests.picture_contents(self.table)
        return pa.nulls(self.table.num_rows, pa.string())

    @property
    def shard_rows(self) -> int:
        """Rows of a shard: whole batches, so that resuming and sharing never change a batch."""
        batch = self.node.backbone.params.batch_size
        return -(-self.node.backbone.params.shard_size // batch) * batch

    @property
    def shard_count(self) -> int:
        return -(-len(self.todo) // self.shard_rows)

    @property
    def root(self) -> Path:
        return images.root(self.table)

    @property
    def where(self) -> Path:
        return paths.prepared(self.node.dataset) / images.NAME

    @property
    def digest(self) -> str:
        return digests.of_values(self.about)

    @property
    def row_digest(self) -> str:
        """Of all that determines a row, except its picture."""
        return _row_digest(self.about)

    @property
    def shards_digest(self) -> str:
        """Another size, or other reused rows, give other shards of the same features."""
        todo = hashlib.sha256(self.todo.astype("<i8").tobytes()).hexdigest()
        return digests.of_values({**self.about, "shard_size": self.shard_rows, "todo": todo})

    def places(self, number: int) -> np.ndarray:
        """int64, the rows of a shard in images.parquet."""
        return self.todo[number * self.shard_rows : (number + 1) * self.shard_rows]

    def batches(self, number: int) -> list[list[Item]]:
        """The images of a shard, in batches."""
        places, size = self.places(number), self.node.backbone.params.batch_size
        rows = self.table.take(places)
        columns = (rows[name].to_pylist() for name in ("image_id", "file", "sha256"))
        wheres = (f"{self.where} row {place}" for place in places.tolist())
        sizes = zip(*(rows[name].to_pylist() for name in ("width", "height")), strict=True)
        items = [Item(*values) for values in zip(*columns, wheres, sizes, strict=True)]
        return [items[start : start + size] for start in range(0, len(items), size)]

    def batch_count(self, number: int) -> int:
        return -(-len(self.places(number)) // self.node.backbone.params.batch_size)


def plan(node: FeatureSet, seed: int, device) -> Job:
    """The job of all images: images.parquet is read and the network is built with its weights.

    device: a torch.device. Raises what reading the table and building the network raise."""
    from vse_pipe.core import devices

    prepared = paths.prepared(node.dataset)
    # One chunk: rows are taken shard by shard, and ``take`` would join several chunks each time.
    columns = ["image_id", "file", "sha256", "width", "height"]
    table = images.read(prepared).select(columns).combine_chunks()
    backbone = BACKBONES.load(node.backbone.name).build(node.backbone.params, seed)
    precision = devices.resolve_precision(backbone.precision, device)
    about = describe(node, backbone, device.type, precision)
    return Job(node, seed, about, table, backbone, np.full(table.num_rows, -1))


@dataclass(frozen=True)
class Earlier:
    """The features that a folder holds.

    contents: of the picture behind each row; failures: why images have no features, by image_id."""

    features: Features
    contents: pa.Array
    failures: dict[int, str]

    @classmethod
    def read(cls, out: Path) -> "Earlier | None":
        """None without features, and for damaged ones, with a warning. Contents are compared with
        their digests, a second a gigabyte."""
        if not (out / features.META).is_file():
            return None
        try:
            return cls(features.read(out), *features.read_contents(out))
        except (InputError, IntegrityError) as error:
            warn(f"{error}; doing so now")
            return None

    def is_of(self, job: Job) -> bool:
        """Whether these are the features of ``job``."""
        about = json.loads(json.dumps({**job.about, "fingerprint": job.digest}))
        return self.features.meta | about == self.features.meta


def with_reused_rows(job: Job, earlier: Earlier | None) -> Job:
    """``job`` without the pictures whose rows ``earlier`` has."""
    if earlier is None or _row_digest(earlier.features.meta) != job.row_digest:
        return job
    places = pc.index_in(job.contents, earlier.contents, skip_nulls=True).fill_null(-1)
    return replace(job, earlier=earlier.features, reused=places.to_numpy().astype(np.int64))


# The modules whose code decides about the features of an image. Putting shards together is no
# part of the digest.
_WORK = ("vse_pipe.extract.compute", "vse_pipe.extract.job")


def describe(node: FeatureSet, backbone: Backbone, kind: str, precision: str) -> dict:
    """Everything that the features depend on. kind: of the device, without its number."""
    code_sha256 = code.digest(code.closure([*_WORK, BACKBONES.module(node.backbone.name)]))
    return {
        "dataset": node.dataset,
        "backbone": node.backbone.name,
        "params": node.backbone.params.model_dump(mode="json"),
        "precision": precision,
        "device": kind,
        features.IMAGES: sha256(paths.prepared(node.dataset) / images.NAME),
        "code_sha256": code_sha256,
        "libraries": {name: version(name) for name in ("numpy", *backbone.libraries)},
        **backbone.about,
    }


def _row_digest(about: dict) -> str:
    """about: what features depend on, or their meta.json."""
    return digests.of_values({key: about[key] for key in about.keys() - {*features.WRITTEN, features.IMAGES}})
