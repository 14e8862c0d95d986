"""The embeddings of one split, checked, on the device, and cut into folds."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from pydantic import ValidationError
from torch import Tensor

from pipeline.artifacts import embeddings
from pipeline.artifacts.embeddings import Side
from pipeline.errors import InputError
from pipeline.evaluate.metrics.truth import Relevance, Truth
from pipeline.evaluate.scores import Scores, Similarity
from pipeline.registry import SIMILARITIES

# Of the mean squared length of the vectors: the share that is not their common mean.
_COLLAPSED = 1e-4


@dataclass(frozen=True)
class Split:
    """image_ids, caption_ids, caption_images: int64; images, captions: float32 vectors of the same width.

    relevance: which pairs are correct; without it a caption is correct for its image and the other way round.
    """

    image_ids: np.ndarray
    caption_ids: np.ndarray
    caption_images: np.ndarray
    images: Float[Tensor, "images dim"]
    captions: Float[Tensor, "captions dim"]
    relevance: Relevance | None = None

    def fold(self, images: slice) -> "Split":
        """Consecutive images with their captions, both in the file's order."""
        ids = self.image_ids[images]
        kept = np.flatnonzero(np.isin(self.caption_images, ids))
        chosen = torch.from_numpy(kept).to(self.captions.device)
        captions = self.caption_ids[kept], self.caption_images[kept]
        return Split(ids, *captions, self.images[images], self.captions[chosen], self.relevance)

    def scores(self, similarity: Similarity, memory: int, sets: int = 1) -> Scores:
        """Images as queries; its transpose has the captions as queries. memory (MiB) and sets: see ``Scores.of``."""
        return Scores.of(self.images, self.captions, similarity, memory=memory, sets=sets)

    def truth(self, direction: str) -> Truth:
        """Of all queries; under ``relevance`` some may have no correct item."""
        if self.relevance is not None:
            return Truth.by_pairs(*self._sides(direction), *self.relevance.pairs[direction])
        sides = (self.image_ids, self.caption_images)
        return Truth.by_image(*(sides if direction == "image_to_text" else reversed(sides)))

    def clusters(self, direction: str) -> np.ndarray:
        """The image that each judged query is or belongs to: queries of one image are not independent of each other."""
        images = self.image_ids if direction == "image_to_text" else self.caption_images
        return images[self._judged(direction)]

    def ids(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Ids of the judged queries, those with a correct item, and of all items."""
        queries, items = self._sides(direction)
        return queries[self._judged(direction)], items

    def unjudged(self, direction: str) -> int:
        """How many queries have no correct item."""
        return len(self._sides(direction)[0]) - len(self.ids(direction)[0])

    def _sides(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        sides = (self.image_ids, self.caption_ids)
        return sides if direction == "image_to_text" else sides[::-1]

    def _judged(self, direction: str) -> np.ndarray | slice:
        return slice(None) if self.relevance is None else self.truth(direction).judged()


@dataclass(frozen=True)
class Embedded:
    """What ``vse-pipe embed`` wrote for one run."""

    folder: Path
    images: Side
    captions: Side

    @classmethod
    def read(cls, folder: Path, run: str | None = None) -> "Embedded":
        """run: whose embeddings they must be, None for any. Raises InputError when a file is missing or unfit, or when the
        two do not belong together."""
        command = f"vse-pipe embed --run {run}" if run else "vse-pipe embed"
        images = embeddings.read(folder / embeddings.IMAGES, command)
        captions = embeddings.read(folder / embeddings.CAPTIONS, command)
        for key in sorted({*images.about, *captions.about} - {"artefact", "version", "ARROW:schema"}):
            ours, theirs = images.about.get(key), captions.about.get(key)
            if ours != theirs:
                raise InputError(
                    f"{folder}: images.parquet has {key} {ours!r} and captions.parquet {theirs!r}; embed both again"
                )
        if run is not None and images.about.get("run") != run:
            raise InputError(
                f"{folder}: embeddings of run {images.about.get('run')!r}, expected {run!r}; embed it again"
            )
        widths = images.vectors.shape[1], captions.vectors.shape[1]
        if widths[0] != widths[1]:
            raise InputError(
                f"{folder}: image vectors have {widths[0]} values and caption vectors {widths[1]}"
            )
        return cls(folder, images, captions)

    def split(self, name: str, device: torch.device) -> Split:
        """Raises InputError when the split is empty or an image or caption in it has no counterpart."""
        images, captions = self.images.split(name), self.captions.split(name)
        if not len(images.ids):
            raise InputError(f"{self.folder / embeddings.IMAGES}: no image of split '{name}'")
        for file, side, other in [
            (embeddings.IMAGES, images, captions),
            (embeddings.CAPTIONS, captions, images),
        ]:
            lonely = side.image_ids[~np.isin(side.image_ids, other.image_ids)]
            if len(lonely):
                raise InputError(
                    f"{self.folder / file}: {len(lonely)} rows of split '{name}' have no counterpart in the other file, "
                    f"the first is image_id {lonely[0]}; prepare and embed the data set again"
                )
        vectors = [torch.from_numpy(side.vectors).to(device) for side in (images, captions)]
        return Split(images.ids, captions.ids, captions.image_ids, *vectors)

    def has(self, name: str) -> bool:
        """Is there an image of that split?"""
        return bool((self.images.splits == name).any())

    def whole(self, device: torch.device) -> Split:
        """All splits as one."""
        vectors = [torch.tensor(side.vectors, device=device) for side in (self.images, self.captions)]
        return Split(self.images.ids, self.captions.ids, self.captions.image_ids, *vectors)

    def must_match(self, other: "Embedded") -> None:
        """Raises InputError unless both come from the same model and are compared in the same way."""
        for key in ("model_sha256", "similarity", "similarity_params", "normalised"):
            ours, theirs = self.images.about.get(key), other.images.about.get(key)
            if ours != theirs:
                raise InputError(
                    f"{other.folder}: {key} is {theirs!r}, that of {self.folder} is {ours!r}; embed with the same model"
                )

    def similarity(self) -> Similarity:
        """The function of (images, captions), larger is closer, that the files' footer names."""
        where, about = self.folder / embeddings.IMAGES, self.images.about
        name = about.get("similarity", "")
        if name not in SIMILARITIES.names():
            known = ", ".join(SIMILARITIES.names())
            raise InputError(
                f"{where}: footer names the similarity '{name}'; known: {known}; embed the run again"
            )
        module = SIMILARITIES.load(name)
        try:
            params = module.Params.model_validate(json.loads(about.get("similarity_params", "{}")))
        except (json.JSONDecodeError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{where}: similarity_params in the footer do not fit '{name}' ({reason})"
            ) from error
        return partial(module.score, params=params)


def collapsed(vectors: Float[Tensor, "rows dim"]) -> bool:
    """Are all vectors all but the same one?"""
    energy = vectors.double().square().sum(dim=1).mean()
    spread = (vectors.double() - vectors.double().mean(dim=0)).square().sum(dim=1).mean()
    return bool(spread <= _COLLAPSED * energy)
