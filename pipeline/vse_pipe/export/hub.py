"""Encode sentences and photos with a model of data/train/ or of `vse-pipe pack`, from any working directory."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps
from torch import Tensor

from vse_pipe.artifacts import features, model_files, texts
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import Damage, InputError, IntegrityError, UnreadableImage, UsageError
from vse_pipe.core.files import inside, read_json, require
from vse_pipe.embed.fitted import Fitted, described
from vse_pipe.export.pack import FEATURES, TEXTS
from vse_pipe.extract.compute import Forward
from vse_pipe.pictures import read
from vse_pipe.project import paths
from vse_pipe.project.registry import BACKBONES, TEXT_FEATURES, Family
from vse_pipe.ranking.fragments import Words
from vse_pipe.search.network import NO_NETWORK, PhotoEncoder, must_be_the_same
from vse_pipe.train import model, restore
from vse_pipe.train.model import DualEncoder

Photo = Path | bytes | Image.Image
# Photos in memory at a time.
_BATCH = 64
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
_DAMAGE = Damage(IntegrityError, "fetch or make it again")
# Modes that a PNG keeps; others become RGB.
_PNG = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")


@dataclass(frozen=True)
class Home:
    """Where the inputs of a model are described. root: paths in options start there; texts, features: folders with a
    meta.json; mend: advice for messages."""

    root: Path
    texts: Path
    features: Path
    mend: str

    @classmethod
    def find(cls, folder: Path, config: dict) -> "Home":
        """Of a pack, or of data/train/<run>/ in a project. config: of the model. Raises InputError if it is neither."""
        if (folder / TEXTS).is_dir():
            return cls(folder, folder / TEXTS, folder / FEATURES, "fetch the folder again")
        above = [*folder.absolute().parents, *folder.resolve().parents]
        root = next((parent for parent in above if (parent / paths.PARAMS).is_file()), None)
        if root is None:
            raise InputError(
                f"{folder}: has no {TEXTS}/, so no `vse-pipe pack` wrote it, and no {paths.PARAMS} is above it, so it is no run of a project"
            )
        for key in ("dataset", "texts", "features"):
            if not re.fullmatch(_NAME, str(config[key])):
                raise IntegrityError(f"{folder / model_files.CONFIG}: {key} {config[key]!r} is no name; train again")
        of_texts, of_features = (
            root / paths.extracted(config["dataset"], config[key]) for key in ("texts", "features")
        )
        mend = f"run `vse-pipe train --run {config.get('run', folder.name)}` again"
        return cls(root, of_texts, of_features, mend)


def networks(folder: Path, device: str = "cpu") -> list["TrainedNetwork"]:
    """The network in ``folder``, or both networks of a run that trains two and ranks by the sum of their scores.

    folder: data/train/<run>/ of a project, or one that `vse-pipe pack` wrote. Raises InputError for a missing file,
    IntegrityError for a file that does not match the digests in config.json.
    """
    config = model_files.read_config(folder)
    home = Home.find(folder, config)
    places = [folder, folder / model_files.PEER] if "peer_sha256" in config else [folder]
    loaded = [restore.load(place, config.get("run")) for place in places]
    if len(loaded) > 1 and loaded[1][1].digest != config["peer_sha256"]:
        raise IntegrityError(f"{places[1]}: holds another network than {model_files.CONFIG} names; {home.mend}")
    target = resolve_device(device)
    return [TrainedNetwork(folder, home, model.to(target), files, target) for model, files in loaded]


@dataclass(frozen=True)
class TrainedNetwork:
    """folder, files: of the model; model: on ``device``."""

    folder: Path
    home: Home
    model: DualEncoder
    files: model_files.ModelFiles
    device: torch.device

    def captions(self, sentences: Sequence[str]) -> Tensor | Words:
        """(n, dim) float32 on the CPU, or the words of n captions for a model that compares fragments.

        Sentences are treated as the training captions were; all unknown words count as one word.
        """
        treated = self._texts.transformed(list(sentences))
        return model.captions(self.model, treated, treated.caption_ids, self.device)

    def features(self, array: Float[np.ndarray, "images ..."]) -> Tensor:
        """(images, dim) or (images, R, dim) float32 on the CPU. array: features as their meta.json describes them.
        Raises UsageError for features of another shape, and for a model that reads pixels itself."""
        shape = tuple(self.files.config["feature_shape"])
        if self.model.tests_on_pixels or array.shape[1:] != shape:
            reads = "pixels" if self.model.tests_on_pixels else f"features of shape {shape}"
            raise UsageError(f"{self.folder}: the model reads {reads}, not an array of shape {array.shape}")
        return model.images(self.model, array, np.arange(len(array)), self.device)

    def images(self, photos: Sequence[Photo]) -> Tensor:
        """(photos, dim) or (photos, R, dim) float32 on the CPU. photos: files, contents of files, or pictures of Pillow.

        Raises InputError for one that is no picture, UsageError if no network here computes the features,
        MissingResource and IntegrityError for missing or other weights."""
        encoder, starts = self._photo_encoder, range(0, len(photos), _BATCH)
        batches = (photos[start : start + _BATCH] for start in starts)
        return torch.cat(
            [
                encoder.photos([_content(photo, start + place) for place, photo in enumerate(batch)]).cpu()
                for start, batch in zip(starts, batches, strict=True)
            ]
        )

    def scores(self, images: Tensor, captions: Tensor | Words) -> Tensor:
        """(images, captions), larger is more similar. images: result of ``images`` or ``features``; captions: of
        ``captions``."""
        with torch.inference_mode():
            return self.model.score(images.to(self.device), captions.to(self.device)).cpu()

    @cached_property
    def _texts(self) -> Fitted:
        folder = self.home.texts
        meta = read_json(require(folder / texts.META))
        with _DAMAGE.named(folder / texts.META, "this version cannot read it"):
            return self._described(folder, meta)

    def _described(self, folder: Path, meta: dict) -> Fitted:
        if texts.digest(meta) != self.files.config.get("texts_sha256"):
            raise IntegrityError(f"{folder}: not the texts that the model was trained on; {self.home.mend}")
        options = _placed(TEXT_FEATURES, meta["method"], meta["options"], self.home)
        return described(folder, meta, options, self.files.words)

    @cached_property
    def _photo_encoder(self) -> PhotoEncoder:
        config = self.files.config
        if self.model.tests_on_pixels:
            return PhotoEncoder(self.model, config, self.device, None, None, "float32")
        meta = read_json(require(self.home.features / features.META))
        with _DAMAGE.named(self.home.features / features.META, "this version cannot read it"):
            return self._encoder(config, meta)

    def _encoder(self, config: dict, meta: dict) -> PhotoEncoder:
        if meta.get("sha256") != config.get("features_sha256"):
            raise IntegrityError(
                f"{self.home.features}: not the features that the model was trained on; {self.home.mend}"
            )
        name = meta["backbone"]
        if name in NO_NETWORK:
            raise UsageError(
                f"{self.folder}: features '{name}' were computed elsewhere, and no network here sees a photo; give the features themselves"
            )
        options = BACKBONES.options(name).model_validate(_placed(BACKBONES, name, meta["params"], self.home))
        backbone = BACKBONES.load(name).build(options, (meta.get("weights") or {}).get("seed", 1))
        must_be_the_same(backbone, meta, config["features"])
        forward = Forward(backbone.module.to(self.device), options, self.device)
        return PhotoEncoder(self.model, config, self.device, backbone, forward, meta.get("precision", "float32"))


def _placed(family: Family, name: str, options: dict, home: Home) -> dict:
    """The options of a member, with paths below the root for the files that they name and that lie there. Raises
    InputError for a pack that names a file outside."""
    root, is_pack = home.root, home.texts.parent == home.root
    files = {source.path for source in family.options(name).model_validate(options).reads()}

    def placed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: placed(part) for key, part in value.items()}
        if isinstance(value, list):
            return [placed(part) for part in value]
        if not isinstance(value, str) or Path(value) not in files:
            return value
        if not (root / value).exists():
            return value
        return str(inside(root, value, f"{root}: options of '{name}'") if is_pack else root / value)

    return {key: placed(value) for key, value in options.items()}


def _content(photo: Photo, place: int) -> tuple[bytes, str]:
    """The bytes of a picture, and its name for messages."""
    name = f"image {place}"
    if isinstance(photo, bytes):
        return photo, name
    if isinstance(photo, Image.Image):
        file = io.BytesIO()
        with read.decoding(name):
            upright = ImageOps.exif_transpose(photo)
            (upright if upright.mode in _PNG else upright.convert("RGB")).save(file, "PNG", compress_level=1)
        return file.getvalue(), name
    try:
        return read.at(photo), str(photo)
    except UnreadableImage as error:
        raise UnreadableImage(str(photo), error.reason) from error
