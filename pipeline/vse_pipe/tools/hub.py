"""Encode sentences and photos with a model that `vse-pipe pack` wrote; no project is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.artifacts import features, model_files, texts
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import IntegrityError, UsageError
from vse_pipe.core.files import read_json, require
from vse_pipe.core.text import Tokens
from vse_pipe.embed.earlier import learnt, require_encoder
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.text_methods import State
from vse_pipe.project.registry import BACKBONES, TEXT_FEATURES
from vse_pipe.ranking.fragments import Words
from vse_pipe.tools.pack import FEATURES, TEXTS, in_pack
from vse_pipe.tools.search.network import NO_NETWORK, PhotoEncoder, must_be_the_same
from vse_pipe.train import model, restore
from vse_pipe.train.model import DualEncoder


def networks(folder: Path, device: str = "cpu") -> list["PackedNetwork"]:
    """The network in ``folder``, or both networks of a run that trains two and ranks by the sum of their scores.

    Raises InputError for a missing file, IntegrityError for a file that does not match the digests in config.json.
    """
    config = model_files.read_config(folder)
    places = [folder, folder / model_files.PEER] if "peer_sha256" in config else [folder]
    loaded = [restore.load(place, config.get("run")) for place in places]
    if len(loaded) > 1 and loaded[1][1].digest != config["peer_sha256"]:
        raise IntegrityError(
            f"{places[1]}: holds another network than {model_files.CONFIG} names; fetch the folder again"
        )
    target = resolve_device(device)
    return [PackedNetwork(folder, model.to(target), files, target) for model, files in loaded]


@dataclass(frozen=True)
class PackedNetwork:
    """folder: of the pack; model: on ``device``; files: of the model."""

    folder: Path
    model: DualEncoder
    files: model_files.ModelFiles
    device: torch.device

    def captions(self, sentences: Sequence[str]) -> Tensor | Words:
        """(n, dim) float32 on the CPU, or the words of n captions for a model that compares fragments.

        Sentences are treated as the training captions were; all unknown words count as one word.
        """
        meta = self._meta(TEXTS, texts.META)
        if texts.digest(meta) != self.files.config.get("texts_sha256"):
            raise IntegrityError(
                f"{self.folder / TEXTS}: not the texts that the model was trained on; fetch the folder again"
            )
        method, places = TEXT_FEATURES.load(meta["method"]), np.arange(len(sentences))
        options = TEXT_FEATURES.options(meta["method"]).model_validate(in_pack(self.folder, meta["options"]))
        require_encoder(options, meta, f"{self.folder / TEXTS}")
        if meta["kind"] == "tokens":
            tokens, _ = method.transform(list(sentences), State(words=self.files.words), options)
            read = texts.Texts("tokens", places, meta, tokens, self.files.words, None, None)
        elif meta["kind"] == "fragments":
            rows, lengths = method.transform(list(sentences), State(), options)
            fragments = Tokens(rows, lengths.cumsum() - lengths, lengths)
            read = texts.Texts("fragments", places, meta, fragments, [], rows, None)
        else:
            state = learnt(self.folder / TEXTS, meta)
            array = np.asarray(method.transform(list(sentences), state, options), np.float32)
            read = texts.Texts("vectors", places, meta, None, state.words, array, places)
        return model.captions(self.model, read, places, self.device)

    def features(self, array: Float[np.ndarray, "images ..."]) -> Tensor:
        """(images, dim) or (images, R, dim) float32 on the CPU. array: features as features/meta.json describes them.
        Raises UsageError for features of another shape, and for a model that reads pixels itself."""
        shape = tuple(self.files.config["feature_shape"])
        if self.model.tests_on_pixels or array.shape[1:] != shape:
            reads = "pixels" if self.model.tests_on_pixels else f"features of shape {shape}"
            raise UsageError(f"{self.folder}: the model reads {reads}, not an array of shape {array.shape}")
        return model.images(self.model, array, np.arange(len(array)), self.device)

    def images(self, photos: Sequence[Path]) -> Tensor:
        """(photos, dim) or (photos, R, dim) float32 on the CPU. Raises InputError for a file that is no picture,
        UsageError if no network here computes the features, MissingResource and IntegrityError for missing or other
        weights."""
        return torch.cat([self._photo_encoder.photo(path.read_bytes(), str(path)).cpu() for path in photos])

    def scores(self, images: Tensor, captions: Tensor | Words) -> Tensor:
        """(images, captions), larger is more similar. images: result of ``images`` or ``features``; captions: of
        ``captions``."""
        with torch.inference_mode():
            return self.model.score(images.to(self.device), captions.to(self.device)).cpu()

    @cached_property
    def _photo_encoder(self) -> PhotoEncoder:
        config = self.files.config
        if self.model.tests_on_pixels:
            return PhotoEncoder(self.model, config, self.device, None, None, "float32")
        meta = self._meta(FEATURES, features.META)
        if meta.get("sha256") != config.get("features_sha256"):
            raise IntegrityError(
                f"{self.folder / FEATURES}: not the features that the model was trained on; fetch the folder again"
            )
        name = meta["backbone"]
        if name in NO_NETWORK:
            raise UsageError(
                f"{self.folder}: features '{name}' were computed elsewhere, and no network here sees a photo; give them to `features`"
            )
        options = BACKBONES.options(name).model_validate(in_pack(self.folder, meta["params"]))
        backbone = BACKBONES.load(name).build(options, (meta.get("weights") or {}).get("seed", 1))
        must_be_the_same(backbone, meta, config["features"])
        forward = Forward(backbone.module.to(self.device), options, self.device)
        return PhotoEncoder(self.model, config, self.device, backbone, forward, meta.get("precision", "float32"))

    def _meta(self, side: str, name: str) -> dict:
        return read_json(require(self.folder / side / name))
