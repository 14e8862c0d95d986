"""A backbone, the job of computing its features (images, shards and digest), and the files of its shards."""

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from vse_pipe.artifacts import digests, features, images, names
from vse_pipe.core.errors import ParamsError, UsageError, unknown
from vse_pipe.core.files import sha256, whole_file
from vse_pipe.pictures.images import Item
from vse_pipe.project import code, paths
from vse_pipe.project.params.typed import FeatureSet, Member, Params
from vse_pipe.project.registry import BACKBONES

if TYPE_CHECKING:
    from torch import nn


class Failure(NamedTuple):
    """An image without features. status: a few words, never ``ok``; detail: the reason, for people."""

    image_id: int
    status: str
    detail: str


class Output(NamedTuple):
    """The features of a batch of B images: tensors of a module, later numpy arrays.

    features: (B, D), or (B, R, D) for R regions. boxes: (B, R, 4) float32, the edges x1, y1, x2, y2 of each region in
    pixels of the upright image; x2 - x1 is the width, and the whole image is (0, 0, width, height). scores: (B, R)
    float32, the confidence of a detector."""

    features: Any
    boxes: Any = None
    scores: Any = None


@dataclass(frozen=True)
class Backbone:
    """A backbone reads one image at a time and turns batches of them into features.

    read: (image root, item) -> an array whose shape and type are the same for every image, or a tuple of such arrays.
    It is called from several threads at once and raises InputError naming the file and the image.
    module: in eval mode, on the CPU; the stage moves it. It takes tensors (B, ...) of these arrays, an argument for
    each array of a tuple, and returns (B, D), or (B, R, D) for R regions, or Output.
    about: JSON for meta.json and the fingerprint; everything besides Params that the features depend on, such as the
    digest of weights and the resolved transform.
    libraries: distributions whose version matters. precision: ``auto``, ``float32`` or ``bfloat16``."""

    read: Callable[[Path, Item], np.ndarray | tuple[np.ndarray, ...]]
    module: "nn.Module"
    about: dict = field(default_factory=dict)
    libraries: tuple[str, ...] = ("torch", "pillow")
    precision: str = "float32"


# The modules whose code decides about the features of an image. Putting shards together is no part of the digest.
_WORK = ("vse_pipe.extract.compute", "vse_pipe.extract.job")


def describe(node: FeatureSet, backbone: Backbone, kind: str, precision: str) -> dict:
    """Everything that the features depend on. kind: of the device, without its number."""
    return {**describe_without_network(node, kind, precision, backbone.libraries), **backbone.about}


def describe_without_network(node: FeatureSet, kind: str, precision: str, libraries: Iterable[str]) -> dict:
    """The part of ``describe`` that needs no network.

    Raises importlib.metadata.PackageNotFoundError for a library that is not installed."""
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


def digest_of(about: dict) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def from_spec(spec: str) -> tuple[str, dict]:
    """``torchvision:resnet18`` -> (``torchvision``, {"model": "resnet18"}); ``vgg19`` -> (``vgg19``, {}).

    Raises UnknownMember for an unknown backbone, UsageError for a missing model or for one that the backbone does not
    take."""
    name, colon, model = spec.partition(":")
    takes_model = "model" in BACKBONES.options(name).model_fields
    if takes_model and not model:
        raise UsageError(f"--backbone {spec}: name the model too, for example {name}:resnet18")
    if colon and not takes_model:
        raise UsageError(f"--backbone {spec}: {name} takes no model; write --backbone {name}")
    return name, {"model": model} if model else {}


def with_backbone(params: Params, spec: str, dataset: str | None, weights: str) -> tuple[Params, str]:
    """``params`` with a further entry under features, and its name. dataset: optional when params.yaml has only one.

    Raises UsageError and ParamsError."""
    name, options = from_spec(spec)
    names = sorted(params.datasets)
    if dataset is None and len(names) != 1:
        raise UsageError(f"--dataset is missing: params.yaml has {', '.join(names)}")
    dataset = names[0] if dataset is None else dataset
    if dataset not in names:
        raise UsageError(unknown("data set", dataset, names))
    model = BACKBONES.options(name)
    if "weights" in model.model_fields:
        options["weights"] = weights
    try:
        member = Member(name, model(**options))
    except ValidationError as error:
        raise ParamsError(
            [f"--backbone {spec} {'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors()]
        ) from error
    # A folder name that differs between specs and between weights: ``torchvision-resnet18-random``.
    parts = [spec] if options.get("weights", "imagenet") == "imagenet" else [spec, Path(weights).stem]
    features = re.sub(r"[^A-Za-z0-9_.+-]", "-", "-".join(parts))
    entry = FeatureSet(dataset, member, params.datasets[dataset].on_error)
    return replace(params, features={**params.features, features: entry}), features


@dataclass(frozen=True)
class RowSource:
    """Features or a shard of an earlier extraction. array: gives the rows of ``features``, ``boxes`` or ``scores``, None
    without such an array; folder: of the shard."""

    array: Callable[[str], np.ndarray | None]
    folder: Path | None = None


@dataclass(frozen=True)
class Reused:
    """Rows that earlier calls computed. number: int64 (N,), the source with the row of each image of the job, -1
    without one; row: int64 (N,), the row in that source."""

    sources: tuple[RowSource, ...]
    number: np.ndarray
    row: np.ndarray

    @property
    def count(self) -> int:
        return int((self.number >= 0).sum())


@dataclass(frozen=True)
class Job:
    """The work of an extraction. Shard k is the k-th group of ``size`` rows of images.parquet that must be computed.

    table: image_id, file, sha256 and size of every image; a million images take 120 MB. about: everything that the
    features depend on. backbone: None in a process that computes nothing. reused: None when all rows must be computed.
    text_ids: the names of images, where a backbone looks pictures up by them."""

    node: FeatureSet
    seed: int
    about: dict
    table: pa.Table
    where: Path
    backbone: Backbone | None = None
    reused: Reused | None = None
    text_ids: names.TextIds | None = None

    @cached_property
    def todo(self) -> np.ndarray:
        """int64, the rows of images.parquet that must be computed."""
        return np.arange(self.table.num_rows) if self.reused is None else np.flatnonzero(self.reused.number < 0)

    @cached_property
    def contents(self) -> pa.Array:
        """As ``digests.picture_contents``; null everywhere when a row depends on more than the picture."""
        by_content = BACKBONES.traits(self.node.backbone.name).by_content
        return digests.picture_contents(self.table) if by_content else pa.nulls(self.table.num_rows, pa.string())

    @property
    def size(self) -> int:
        """Rows of a shard: a multiple of the batch size, so that resuming and sharing never change a batch."""
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
        return digest_of(self.about)

    @property
    def shards_digest(self) -> str:
        """The digest of the shards. Another size, or other reused rows, give other shards of the same features."""
        about = {**self.about, "shard_size": self.size}
        if self.reused is not None:
            about["todo"] = hashlib.sha256(self.todo.astype("<i8").tobytes()).hexdigest()
        return digest_of(about)

    def places(self, number: int) -> np.ndarray:
        """int64, the rows of a shard in images.parquet."""
        return self.todo[number * self.size : (number + 1) * self.size]

    def ids(self, number: int) -> pa.ChunkedArray:
        return self.table["image_id"].take(self.places(number))

    def items(self, number: int) -> list[Item]:
        places = self.places(number)
        rows = self.table.take(places)
        columns = (rows[name].to_pylist() for name in ("image_id", "file", "sha256"))
        wheres = (f"{self.where} row {place}" for place in places.tolist())
        sizes = zip(*(rows[name].to_pylist() for name in ("width", "height")), strict=True)
        labels = None if self.text_ids is None else self.text_ids.texts("image_id", rows["image_id"].to_numpy())
        texts = [""] * len(places) if labels is None else labels.to_pylist()
        return [Item(*values) for values in zip(*columns, wheres, sizes, texts, strict=True)]

    def batches(self, number: int) -> list[list[Item]]:
        items, size = self.items(number), self.node.backbone.params.batch_size
        return [items[start : start + size] for start in range(0, len(items), size)]

    def batch_count(self, number: int) -> int:
        return -(-len(self.places(number)) // self.node.backbone.params.batch_size)

    def manifest(self, number: int) -> dict:
        """The images of a shard and everything that it depends on."""
        ids, contents = self.ids(number).to_pylist(), self.contents.take(self.places(number)).to_pylist()
        pairs = [list(pair) for pair in zip(ids, contents, strict=True)]
        return {"of": self.count, "images": len(ids), "contents": pairs, "about": self.about}


def job_of(node: FeatureSet, seed: int, about: dict) -> Job:
    """The job with the ``about`` of an earlier call; no network is built."""
    prepared = paths.prepared(node.dataset)
    # One chunk: rows are taken shard by shard, and ``take`` would join several chunks each time.
    columns = ["image_id", "file", "sha256", "width", "height"]
    table = images.read(prepared).select(columns).combine_chunks()
    by_content = BACKBONES.traits(node.backbone.name).by_content
    text_ids = None if by_content else names.read(prepared)
    return Job(node, seed, about, table, prepared / images.NAME, text_ids=text_ids)


def plan(node: FeatureSet, seed: int, device) -> Job:
    """The job with its network: images.parquet is read and the weights are loaded. device: a torch.device."""
    from vse_pipe.core import devices

    job = job_of(node, seed, {})
    backbone = BACKBONES.load(node.backbone.name).build(node.backbone.params, seed)
    resolved = devices.resolve_precision(backbone.precision, device)
    return replace(job, about=describe(node, backbone, device.type, resolved), backbone=backbone)


# The shards of an extraction. Each is a file that appears whole:
# ``<out>/shards/<fingerprint>/<number>-<digest>.safetensors``.
#
# The tensors are ``features`` and, for regions, ``boxes`` and ``scores``. The manifest in the header names the images,
# the images without features with the reason, and everything that the features depend on. The digest is that of the whole
# file.

FOLDER = "shards"
_DIGITS = 16
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError)
_NAME = re.compile(r"(\d{6,})-([0-9a-f]{16})\.safetensors")


@dataclass(frozen=True)
class Shard:
    """rows: of the readable images, in the order of images.parquet, None without any; failures: of the other images."""

    rows: Output | None
    failures: list[Failure] = field(default_factory=list)

    @property
    def count(self) -> int:
        return 0 if self.rows is None else len(self.rows.features)


class Damaged(Exception):
    """The file of a shard has changed since it was written. number: of the shard."""

    def __init__(self, number: int, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.number = number


class Shards:
    """The shards of one extraction. fingerprint: hex digest of everything that they depend on; used: folders of shards
    of other extractions whose rows it reuses."""

    def __init__(self, out: Path, fingerprint: str, used: Iterable[Path] = ()) -> None:
        self.fingerprint = fingerprint
        self._all = out / FOLDER
        self._folder = self._all / fingerprint[:_DIGITS]
        self._used = set(used)

    def files(self) -> dict[int, Path]:
        """The files by number. Only names are read; contents are compared with their digests when they are loaded."""
        if not self._folder.is_dir():
            return {}
        names = {path: _NAME.fullmatch(path.name) for path in sorted(self._folder.iterdir())}
        return {int(match[1]): path for path, match in names.items() if match}

    def tidy(self) -> None:
        """Remove shards of unrelated extractions and unfinished files of killed processes.

        Only for a process that writes alone."""
        if self._all.is_symlink():  # the folder that it leads to belongs to the user
            self._all.unlink()
        unrelated = set(self._all.iterdir()) - {self._folder, *self._used} if self._all.is_dir() else set()
        unfinished = set(self._folder.iterdir()) - set(self.files().values()) if self._folder.is_dir() else set()
        for path in unrelated | unfinished:
            _remove(path)

    def write(self, number: int, shard: Shard, manifest: dict) -> None:
        """Write a shard, synced and renamed. manifest: JSON, to which rows, failures and the fingerprint are added."""
        rows = {} if shard.rows is None else shard.rows._asdict()
        tensors = {name: np.ascontiguousarray(array) for name, array in rows.items() if array is not None}
        about = {
            **manifest,
            "shard": number,
            "rows": shard.count,
            "failures": shard.failures,
            "fingerprint": self.fingerprint,
        }
        content = save(tensors, {"manifest": json.dumps(about, sort_keys=True, ensure_ascii=False)})
        path = self._folder / f"{number:06d}-{_digest(content)}.safetensors"
        with whole_file(path) as temporary:
            temporary.write_bytes(content)

    def manifest(self, number: int, path: Path) -> dict:
        """The manifest that ``write`` stored; only the header is read. Raises Damaged."""
        try:
            manifest = _manifest(path)
            failures = [Failure(int(image), str(status), str(why)) for image, status, why in manifest["failures"]]
        except _UNREADABLE as error:
            raise Damaged(number, path, f"its manifest cannot be read ({error})") from error
        if (manifest.get("shard"), manifest.get("fingerprint")) != (number, self.fingerprint):
            raise Damaged(number, path, "its manifest is that of another shard")
        return {**manifest, "failures": failures}

    def rows(self, number: int, path: Path) -> dict[str, np.ndarray]:
        """All arrays by name. Raises Damaged when the file does not have the digest in its name."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise Damaged(number, path, f"cannot be read ({error.strerror})") from error
        match = _NAME.fullmatch(path.name)
        if not match or match[2] != _digest(content):
            raise Damaged(number, path, "its content does not match the digest in its name")
        try:
            return load(content)
        except (SafetensorError, KeyError) as error:  # written by another program, under the right digest
            raise Damaged(number, path, f"holds no tensors that can be read ({error})") from error

    def drop(self, number: int) -> None:
        if path := self.files().get(number):
            path.unlink()

    def remove(self) -> None:
        _remove(self._all)


def _remove(path: Path) -> None:
    """Remove a file or folder; of a symbolic link only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def earlier_manifests(out: Path) -> dict[Path, dict]:
    """A manifest of each extraction that has shards below ``out``, by folder."""
    manifests = {}
    for folder in sorted((out / FOLDER).glob("*/")):
        for path in sorted(folder.glob("[0-9]*.safetensors"))[:1]:
            # A reader of an unreadable shard finds it damaged and computes it again.
            with contextlib.suppress(*_UNREADABLE):
                manifest = _manifest(path)
                if isinstance(manifest["about"], dict):
                    manifests[folder] = manifest
    return manifests


def tensor(path: Path, name: str) -> np.ndarray | None:
    """An array of a file that ``Shards.rows`` has compared with its digest; None without such an array."""
    with safe_open(path, framework="np") as file:
        return file.get_tensor(name) if name in file.keys() else None  # noqa: SIM118


def _manifest(path: Path) -> dict:
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["manifest"])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
