"""What a feature file depends on, as JSON for meta.json and as one digest for resuming."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from vse_pipe.artifacts import features, images, joins
from vse_pipe.core.errors import ParamsError, UsageError, unknown
from vse_pipe.core.files import sha256
from vse_pipe.extract.backbone import Backbone
from vse_pipe.pictures.images import Item
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import FeatureSet, Member, Params
from vse_pipe.project.registry import BACKBONES

# Where the work of a batch and of an image begins; what is put together of it afterwards is no part of the digest.
_WORK = ("vse_pipe.extract.compute", "vse_pipe.extract.job")


def describe(node: FeatureSet, backbone: Backbone, kind: str, precision: str) -> dict:
    """Everything the features follow from. kind: the device's; its number is no part of it."""
    return {**own(node, kind, precision, backbone.libraries), **backbone.about}


def own(node: FeatureSet, kind: str, precision: str, libraries: Iterable[str]) -> dict:
    """The part of ``describe`` that needs no network.

    Raises importlib.metadata.PackageNotFoundError for a library that is not installed.
    """
    return {
        "dataset": node.dataset,
        "backbone": node.backbone.name,
        "params": node.backbone.params.model_dump(mode="json"),
        "precision": precision,
        "device": kind,
        features.IMAGES: sha256(paths.prepared(node.dataset) / images.NAME),
        "code_sha256": code.digest(code.closure([*_WORK, BACKBONES.module(node.backbone.name)])),
        "libraries": {name: version(name) for name in ("numpy", *libraries)},
    }


def digest(about: dict) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def from_spec(spec: str) -> tuple[str, dict]:
    """``torchvision:resnet18`` -> (``torchvision``, {"model": "resnet18"}); ``vgg19`` -> (``vgg19``, {}).

    Raises UnknownMember for a backbone that does not exist, UsageError for a model where none is taken or missing.
    """
    name, colon, model = spec.partition(":")
    takes_model = "model" in BACKBONES.options(name).model_fields
    if takes_model and not model:
        raise UsageError(f"--backbone {spec}: name the model too, for example {name}:resnet18")
    if colon and not takes_model:
        raise UsageError(f"--backbone {spec}: {name} takes no model; write --backbone {name}")
    return name, {"model": model} if model else {}


def with_backbone(params: Params, spec: str, dataset: str | None, weights: str) -> tuple[Params, str]:
    """``params`` with one more entry under features, and its name. dataset: may be left out when there is only one.

    Raises UsageError and ParamsError.
    """
    name, options = from_spec(spec)
    dataset = _dataset(params, dataset)
    model = BACKBONES.options(name)
    if "weights" in model.model_fields:
        options["weights"] = weights
    try:
        member = Member(name, model(**options))
    except ValidationError as error:
        raise ParamsError(
            [f"--backbone {spec} {'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()]
        ) from error
    features = _name(spec, options.get("weights", "imagenet"))
    made = FeatureSet(dataset, member, params.datasets[dataset].on_error)
    return replace(params, features={**params.features, features: made}), features


def _dataset(params: Params, dataset: str | None) -> str:
    known = sorted(params.datasets)
    if dataset is None:
        if len(known) != 1:
            raise UsageError(f"--dataset is missing: params.yaml has {', '.join(known)}")
        return known[0]
    if dataset not in known:
        raise UsageError(unknown("data set", dataset, known))
    return dataset


def _name(spec: str, weights: str) -> str:
    """A folder name that tells specs and weights apart: ``torchvision-resnet18-random``."""
    parts = [spec] if weights == "imagenet" else [spec, Path(weights).stem]
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", "-".join(parts))


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
        return joins.picture_contents(self.table) if by_content else pa.nulls(self.table.num_rows, pa.string())

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
        return digest(self.about)

    @property
    def shards_digest(self) -> str:
        """Of the shards: other sizes, or other rows that are there already, are other shards of the same features."""
        about = {**self.about, "shard_size": self.size}
        if self.reused is not None:
            about["todo"] = _digest(self.todo)
        return digest(about)

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
    return replace(job, about=describe(node, backbone, device.type, resolved), backbone=backbone)
