"""Trained models that encode captions and images and compare them, as the stage ``embed`` does."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from PIL import Image
from torch import Tensor

from vse_pipe.api import arguments
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.captions import caption_text
from vse_pipe.ranking.fragments import Several, Sides, Words, pooled
from vse_pipe.train.trained import Trained, joined, parts_of

Encoded = np.ndarray | Several
Picture = str | os.PathLike | bytes | Image.Image  # type: ignore[type-arg]


def load(folder: str | os.PathLike[str], device: str = "cpu") -> "Model":
    """The model in a folder.

    >>> import vse_pipe as vp
    >>> model = vp.load("data/train/sum")
    >>> model
    Model(sum: cosine, 12 dimensions)
    >>> model.encode_captions(["a red dog", "two trees"]).shape
    (2, 12)

    Args:
        folder: data/train/<run> of a project, or what `vse-pipe pack` wrote.
        device: "cpu", "cuda", "cuda:1" or "auto", an NVIDIA GPU if there is one.

    Raises InputError for a folder without a model, IntegrityError for files of several models.
    """
    return Model(Trained.open(Path(folder).expanduser().absolute(), device))


@dataclass(frozen=True, repr=False)
class Model:
    """A trained model, of one network or of two whose scores are averaged (scheme NCR).

    Vectors are numpy float32 (n, ``dim``); those of two networks stand side by side. A model that
    compares regions with words (SCAN, SGR, SAF) gives an object with a length and slices instead.
    """

    _trained: Trained

    def __repr__(self) -> str:
        config = self._trained.config
        name = config.get("run", self._trained.folder.name)
        return f"Model({name}: {config['similarity']['name']}, {self.dim} dimensions)"

    @property
    def dim(self) -> int:
        """Dimensions of a vector, or of a fragment."""
        return self._trained.width

    def encode_captions(self, captions: Sequence[str]) -> Encoded:
        """The captions' vectors (n, dim), or their words. Unknown words count as one word. Raises
        InputError for a caption that is empty or no text."""
        entries = _listed("captions", captions, str)
        texts = [caption_text(text, f"captions: entry {place}") for place, text in enumerate(entries)]
        return self._encoded(self._trained.captions(texts))

    def encode_images(self, images: Sequence[Picture]) -> Encoded:
        """The images' vectors (n, dim), or their regions.

        images: paths, contents of files, or pictures of Pillow. Raises InputError for an unreadable
        image, UsageError where features were computed elsewhere, IntegrityError for other weights.
        """
        entries = _listed("images", images, Picture)
        photos = [Path(image) if isinstance(image, str | os.PathLike) else image for image in entries]
        return self._encoded(self._trained.images(photos))

    def encode_features(self, features: ArrayLike) -> Encoded:
        """The vectors (n, dim) of images, or their regions, from features of the kind that the
        model was trained on: (n, width) or (n, regions, width)."""
        array = arguments.array("features", features)
        if not np.isfinite(array).all():
            raise InputError(f"features of shape {array.shape}: not finite numbers")
        return self._encoded(self._trained.features(array))

    def similarity(self, images: Encoded, captions: Encoded) -> np.ndarray:
        """Scores (images, captions) float32, larger is more similar, of what ``encode_images`` or
        ``encode_features`` and ``encode_captions`` returned."""
        sides = self._side("images", images, Tensor), self._side("captions", captions, Words)
        return self._trained.scores(*sides).numpy()

    def _encoded(self, side: Sides) -> Encoded:
        if self._trained.has_fragments:
            return Several(parts_of(side))
        return pooled(side).numpy()

    def _side(self, name: str, side: Encoded, kind: type) -> Any:
        """kind: of the parts of a model that compares fragments."""
        count = len(self._trained.networks)
        if self._trained.has_fragments:
            parts = side.parts if isinstance(side, Several) else ()
            if len(parts) != count or not all(isinstance(part, kind) for part in parts):
                raise InputError(f"{name}: not the fragments that the model returned for {name}")
            return joined(parts)
        array = arguments.matrix(name, side, columns=self.dim)  # type: ignore[arg-type]
        vectors = torch.from_numpy(array.astype(np.float32)) * count**0.5
        return joined(vectors.chunk(count, dim=1))


def _listed(name: str, value: Sequence[Any], kinds: Any) -> list[Any]:
    """The entries. Raises InputError for none, for others than ``kinds``, and for an entry in place
    of a list."""
    entries = [] if isinstance(value, str | bytes) else list(value)
    if not entries or not all(isinstance(entry, kinds) for entry in entries):
        raise InputError(f"{name}: expected a list of one entry or more, got {value!r:.40}")
    return entries
