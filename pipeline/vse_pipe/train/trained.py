"""The model of a folder: data/train/<run>/ of a project, or one that `vse-pipe pack` wrote. A run
may train two networks, whose scores are averaged."""

import contextlib
import hashlib
import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps
from torch import Tensor

from vse_pipe.artifacts import features, identity, model_files, texts
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.console import track
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage, UsageError, damaged
from vse_pipe.core.files import inside, read_json
from vse_pipe.extract.compute import ahead_of, batches
from vse_pipe.extract.fitted import Fitted
from vse_pipe.pictures import read
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import (
    BACKBONES,
    IMAGE_ENCODERS,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
    Family,
)
from vse_pipe.ranking.fragments import Several, Sides, blocks
from vse_pipe.train import model as encoder
from vse_pipe.train.model import DualEncoder, build, network_holder
from vse_pipe.train.pictures import PhotoReader

Photo = Path | bytes | Image.Image
# Readable pictures, a row for each, None without any, and why others cannot be read, by image_id.
PictureBlock = tuple[list[Item], Sides | None, dict[int, str]]
# Folders of a pack with the meta.json of text features and of features.
TEXTS, FEATURES = "texts", "features"
# Backbones that read features computed elsewhere; there is no network for a photo.
NO_NETWORK = ("precomp", "bottom_up")
_UNFIT = "this version cannot read it"
# Modes that a PNG keeps; others become RGB.
_PNG = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


@dataclass(frozen=True)
class TrainedNetwork:
    """One network of a run, in evaluation mode. files: of its folder."""

    model: DualEncoder
    files: model_files.ModelFiles

    @classmethod
    def load(cls, folder: Path, run: str | None = None) -> "TrainedNetwork":
        """The network of data/train/<run>/, on the CPU.

        run: name for messages, by default the folder's name. Raises InputError when a file is
        missing, IntegrityError when a file is damaged or config.json does not fit the weights.
        """
        files = model_files.read(folder, run)
        config = files.config
        with damaged(folder / model_files.CONFIG, f"does not fit {model_files.MODEL} or this version"):
            image, text, similarity = (
                _member(family, config[key])
                for key, family in (("image", IMAGE_ENCODERS), ("text", TEXT_ENCODERS), ("similarity", SIMILARITIES))
            )
            backbone, described = None, config.get("backbone")
            if described and (holder := network_holder(image, text)):
                backbone = holder.restore_network(described)
            sizes = tuple(config["feature_shape"]), config["text_inputs"], config["embed_size"]
            model = build(image, text, similarity, *sizes, seed=0, backbone=backbone)
            # Weights of the loss are needed in training only.
            model.load_state_dict({key: value for key, value in files.weights.items() if not key.startswith("loss.")})
        return cls(model.eval(), files)

    @property
    def width(self) -> int:
        """Dimensions of a vector or of a fragment."""
        return int(self.files.config["embed_size"])


def _member(family: Family, described: dict) -> Member:
    """The member that ``describe`` turned into JSON."""
    name = described["name"]
    if name not in family.names():
        raise LookupError(f"no {family.kind} '{name}'")
    return Member(name, family.options(name).model_validate(described["params"]))


@dataclass(frozen=True)
class Trained:
    """folder: of the model; networks: one or two, on ``device``; home: where their inputs are
    described."""

    folder: Path
    networks: tuple[TrainedNetwork, ...]
    home: "Home"
    device: torch.device

    @classmethod
    def open(cls, folder: Path, device: str | torch.device = "cpu") -> "Trained":
        """Raises InputError for a missing file and for a folder that is neither a run nor a pack,
        IntegrityError for a file that does not match the digests in config.json, and for a second
        network that is not the one that config.json names."""
        target = device if isinstance(device, torch.device) else resolve_device(device)
        config, home = model_files.read_config(folder), Home.find(folder)
        # A pack may lie in a folder of any name.
        run = str(config.get("run", folder.name)) if home.is_pack else paths.run_of_folder(folder)
        networks = [TrainedNetwork.load(folder, run)]
        if digest := config.get("peer_sha256"):
            peer = folder / model_files.PEER
            networks.append(TrainedNetwork.load(peer, run))
            if networks[1].files.digest != digest:
                raise IntegrityError(
                    f"{peer}: holds another network than {model_files.CONFIG} names; train the run again, or "
                    "fetch the folder again"
                )
        for network in networks:
            network.model.to(target)
        return cls(folder, tuple(networks), home, target)

    @property
    def config(self) -> dict:
        return self.networks[0].files.config

    @property
    def width(self) -> int:
        """Dimensions of a vector or of a fragment, of both networks together."""
        return sum(network.width for network in self.networks)

    @property
    def has_fragments(self) -> bool:
        """Whether images are compared by regions and captions by words."""
        return self.networks[0].model.fragments

    @property
    def tests_on_pixels(self) -> bool:
        """Whether images are read as pixels, not as features."""
        return self.networks[0].model.tests_on_pixels

    def captions(self, sentences: Sequence[str]) -> Sides:
        """(n, dim) float32 on the CPU, or the words of n captions; a part for each of two networks.
        All unknown words count as one word. Raises as ``texts``."""
        treated = self.texts.transformed(list(sentences))
        return self.treated(treated, treated.caption_ids)

    def treated(self, sentences: Texts, places: np.ndarray, title: str = "") -> Sides:
        """As ``captions``, of sentences that the text features have treated. places: of those to
        encode; title: of the progress."""
        sides = [encoder.captions(network.model, sentences, places, self.device, title) for network in self.networks]
        return joined(sides)

    def features(self, array: Float[np.ndarray, "images ..."]) -> Sides:
        """(images, dim) or (images, R, dim). array: features as their meta.json describes them.
        Raises UsageError for features of another shape, and for a model that reads pixels."""
        shape = tuple(self.config["feature_shape"])
        if self.tests_on_pixels or array.shape[1:] != shape:
            reads = "pixels" if self.tests_on_pixels else f"features of shape {shape}"
            raise UsageError(f"{self.folder}: the model reads {reads}, not an array of shape {array.shape}")
        return self._encoded(array)

    def images(self, photos: Sequence[Photo], names: Sequence[str] = ()) -> Sides:
        """As ``features``. photos: files, contents of files, or pictures of Pillow; names: of the
        photos, for messages.

        Raises InputError for one that is no picture, UsageError if no network here computes the
        features, MissingResource and IntegrityError for missing or other weights."""
        assert self.reader  # before a photo is read
        with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
            named = zip(photos, names or [f"image {place}" for place in range(len(photos))], strict=True)
            items = [_item(Path(folder), place, *photo) for place, photo in enumerate(named)]
            return self.boxes(Path(folder), items)

    def boxes(self, folder: Path, items: Sequence[Item]) -> Sides:
        """As ``images``, of pictures, or boxes of pictures, below ``folder``."""
        names, sides = {item.image_id: item.where for item in items}, []
        for _, side, failures in self.pictures(folder, items):
            for image_id, reason in failures.items():
                raise UnreadableImage(names[image_id], reason)
            sides.append(parts_of(side))
        columns = zip(*sides, strict=True)
        return joined([torch.cat(column) for column in columns])

    def pictures(self, folder: Path, items: Sequence[Item], title: str = "") -> Iterator[PictureBlock]:
        """``items`` below ``folder`` in blocks. title: of the progress. Raises as ``images``."""
        reader = self.reader
        work = [list(items[part]) for part in blocks(len(items), reader.batch_size)]
        with contextlib.closing(batches(work, partial(reader.read, folder), ahead_of(self.device))) as reading:
            for batch in track(reading, len(work), title) if title else reading:
                side = None if batch.arrays is None else self._encoded(reader.inputs(batch.arrays))
                yield batch.items, side, batch.failures

    def _encoded(self, array: np.ndarray) -> Sides:
        rows = np.arange(len(array))
        return joined([encoder.images(network.model, array, rows, self.device) for network in self.networks])

    def scores(self, images: Any, captions: Any) -> Float[Tensor, "images captions"]:
        """Larger is more similar; of two networks the mean. images: result of ``images`` or
        ``features``; captions: of ``captions``."""
        sides = zip(self.networks, parts_of(images), parts_of(captions), strict=True)
        with torch.inference_mode():
            scores = [
                network.model.score(left.to(self.device), right.to(self.device)).cpu() for network, left, right in sides
            ]
        return torch.stack(scores).mean(dim=0)

    @cached_property
    def texts(self) -> Fitted:
        """Raises InputError and IntegrityError for missing or other text features."""
        with damaged(self.home.texts / texts.META, _UNFIT):
            meta = self.home.meta("texts", texts.digest, self.config)
            options = self.home.placed(TEXT_FEATURES, meta["method"], meta["options"])
            return Fitted.of_folder(self.home.texts, meta, options, self.networks[0].files.words)

    @cached_property
    def reader(self) -> PhotoReader:
        """What turns photos into inputs of the image encoders. Raises as ``images``."""
        if self.tests_on_pixels:
            return PhotoReader.of_pixels(self.config["backbone"])
        with damaged(self.home.features / features.META, _UNFIT):
            meta = self.home.meta("features", itemgetter("sha256"), self.config)
            if (name := meta["backbone"]) in NO_NETWORK:
                raise UsageError(
                    f"{self.folder}: features '{name}' were computed elsewhere, and no network here "
                    "sees a photo; give the features themselves, or `search` image:ID, an image of "
                    "the data set"
                )
            params = self.home.placed(BACKBONES, name, meta["params"])
            return PhotoReader.of_features(meta, params, self.config["features"], self.device)


@dataclass(frozen=True)
class Home:
    """Where the inputs of a model are described. root: paths in options start there; texts,
    features: folders with a meta.json; is_pack: written by `vse-pipe pack`."""

    folder: Path
    root: Path
    texts: Path
    features: Path
    is_pack: bool

    @classmethod
    def find(cls, folder: Path) -> "Home":
        """Raises InputError if ``folder`` is neither a pack nor data/train/<run>/ in a project."""
        if (folder / TEXTS).is_dir():
            return cls(folder, folder, folder / TEXTS, folder / FEATURES, is_pack=True)
        above = [*folder.parents, *folder.absolute().parents, *folder.resolve().parents]
        below = paths.trained("").parts
        root = next((path.parent.parent for path in above if path.parts[-2:] == below), None)
        if root is None:
            raise InputError(
                f"{folder}: has no {TEXTS}/, so no `vse-pipe pack` wrote it, and it does not lie in data/train/ of a project"
            )
        config = model_files.read_config(folder)
        texts_folder, features_folder = (
            inside(
                root, str(paths.extracted(str(config["dataset"]), str(config[kind]))), str(folder / model_files.CONFIG)
            )
            for kind in ("texts", "features")
        )
        return cls(folder, root, texts_folder, features_folder, is_pack=False)

    def meta(self, kind: str, digest: Callable[[dict], str], config: dict) -> dict:
        """The meta.json of the ``texts`` or ``features``. Raises InputError where it is missing,
        IntegrityError where it is not that of the training."""
        folder: Path = getattr(self, kind)
        meta = read_json(folder / features.META)
        if digest(meta) != config.get(f"{kind}_sha256"):
            again = "fetch the folder again" if self.is_pack else identity.made_anew(self.folder)
            raise IntegrityError(f"{folder}: not the {kind} that the model was trained on; {again}")
        return meta

    def placed(self, family: Family, name: str, options: dict) -> dict:
        """The options of a member, with paths below the root for the files that they name and that
        lie there. Raises InputError for a pack that names a file outside."""
        files = {source.path for source in family.options(name).model_validate(options).reads()}

        def place(value: str) -> str:
            if Path(value) not in files or not (self.root / value).exists():
                return value
            if self.is_pack:
                return str(inside(self.root, value, f"{self.root}: options of '{name}'"))
            return str(self.root / value)

        return mapped(options, place)


def mapped(options: Any, change: Callable[[str], str]) -> Any:
    """Options of a meta.json with ``change(text)`` for every text in them, also in their parts."""
    if isinstance(options, dict):
        return {key: mapped(value, change) for key, value in options.items()}
    if isinstance(options, list):
        return [mapped(value, change) for value in options]
    return change(options) if isinstance(options, str) else options


def joined(sides: Sequence[Any]) -> Any:
    """One side of several models, ``Several`` for more than one."""
    return sides[0] if len(sides) == 1 else Several(tuple(sides))


def parts_of(side: Any) -> tuple[Any, ...]:
    """The part of each model; the opposite of ``joined``."""
    return side.parts if isinstance(side, Several) else (side,)


def _item(folder: Path, place: int, photo: Photo, name: str) -> Item:
    """The photo as a file in ``folder``. name: of one that is no file."""
    if isinstance(photo, Path):
        name = str(photo)
        content = read.at(photo, name)
    else:
        content = photo if isinstance(photo, bytes) else _png(photo, name)
    (folder / str(place)).write_bytes(content)
    return Item(place, str(place), hashlib.sha256(content).hexdigest(), name)


def _png(photo: Image.Image, name: str) -> bytes:
    file = io.BytesIO()
    with read.decoding(name):
        upright = ImageOps.exif_transpose(photo)
        picture = upright if upright.mode in _PNG else upright.convert("RGB")
        picture.save(file, "PNG", compress_level=1)
    return file.getvalue()
