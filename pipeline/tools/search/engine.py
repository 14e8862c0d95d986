"""A run's embeddings, opened once and asked many times."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import RLock

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.artifacts import names
from pipeline.artifacts.names import TextIds
from pipeline.core import text_ids
from pipeline.core.device import resolve
from pipeline.core.errors import InputError, UsageError
from pipeline.core.unknown import unknown
from pipeline.project.params.typed import Params
from pipeline.project.repetitions import one_model
from pipeline.ranking.engine.criteria import Criterion
from pipeline.ranking.engine.fragments import Sides, plain
from pipeline.ranking.engine.scores import Similarity
from pipeline.tools.search import together
from pipeline.tools.search.answer import Answer, Hit
from pipeline.tools.search.catalogue import Catalogue
from pipeline.tools.search.correction import Correction, correction_of, criterion_of
from pipeline.tools.search.gallery import SPLITS
from pipeline.tools.search.network import Asked, Network
from pipeline.tools.search.together import Together

TO_IMAGES, TO_CAPTIONS = "text_to_image", "image_to_text"
# Images or captions whose fragments are compared at once.
_TILE = 2048


class Engine:
    """One run, criterion and split. Vectors, models and corrections are loaded when a query first needs them; queries may
    come from several threads at once. counts: ``images`` and ``captions`` that are searched; left_out: those of the split that
    could not be read and have no embedding, empty where all have one. named: are the images' ids text? Those of hits and questions
    are then."""

    run: str
    inference: str
    split: str
    counts: dict[str, int]
    left_out: dict[str, int]
    named: bool
    _params: Params
    _names: TextIds | None
    _criterion: Criterion
    _network: Network | Together
    _catalogue: Catalogue
    _lock: RLock
    _similarity: Similarity | None
    _corrections: dict[str, Correction]

    @classmethod
    def open(
        cls, params: Params, run: str, inference: str = "nns", split: str = "test", device: str = "auto"
    ) -> "Engine":
        """Raises UsageError for an unknown run, criterion, split or device and for a criterion that needs all queries at
        once; MissingResource naming the command that makes what is not there; IntegrityError for embeddings of another
        model than the run's."""
        _check_known("run", one_model(params, run), params.evaluated())
        _check_known("split", split, SPLITS)
        found = cls()
        found.run, found.inference, found.split = run, inference, split
        found._params, found._criterion = params, criterion_of(params, inference)
        found._network = together.open_run(params, run, split, resolve(device))
        found._catalogue = Catalogue.read(params.dataset(run))
        ids = found._network.ids
        found.counts = {"images": len(ids.image_ids), "captions": len(ids.caption_ids)}
        found.left_out = found._network.galleries[0].left_out
        found._names = names.read(found._network.galleries[0].folder)
        found.named = found._names is not None and found._names.has("image_id")
        found._lock, found._similarity, found._corrections = RLock(), None, {}
        return found

    def by_text(self, text: str, k: int = 10) -> Answer:
        """The images that a sentence describes best. Raises InputError for a sentence that holds nothing to look for."""
        return self._answer(text, TO_IMAGES, lambda: self._network.sentence(text), k)

    def by_image(self, content: bytes, k: int = 10, name: str = "a photo") -> Answer:
        """The captions that fit a photo best, from the bytes of its file. Raises InputError when it is no picture,
        UsageError where the run's features were computed elsewhere. name: what the answer calls it."""
        return self._answer(name, TO_CAPTIONS, lambda: self._network.photo(content, name), k)

    def by_image_id(self, image_id: int | str, k: int = 10) -> Answer:
        """The captions that fit an image of the data set, of whatever split. Raises InputError for an unknown one, UsageError
        for a text where ids are numbers."""
        number = self._number(image_id)
        return self._answer(f"image {image_id}", TO_CAPTIONS, lambda: self._network.image(number), k)

    def picture(self, image_id: int | str) -> Path | None:
        """Where an image of the data set lies, inside its root, as ``sources.read.at`` takes it; None where the file is gone or
        there are only features. Raises as ``by_image_id``."""
        return self._catalogue.path(self._number(image_id))

    def _number(self, image_id: int | str) -> int:
        """What an image is inside the pipeline."""
        if self.named and self._names is not None:
            found = self._names.number("image_id", str(image_id))
            if found is None:
                raise InputError(f"data set '{self._catalogue.dataset}' has no image {text_ids.shown(str(image_id))}")
            return found
        try:
            return int(image_id)
        except ValueError as error:
            raise UsageError(f"image_id must be a whole number, got {text_ids.shown(str(image_id))}") from error

    def _shown(self, key: str, number: int) -> int | str:
        """As the data set has it."""
        return number if self._names is None else self._names.shown(key, number)

    def correction(self, direction: str) -> Correction:
        """What the criterion takes off the items of one direction; computed now if nothing has needed it yet."""
        with self._lock:
            if direction not in self._corrections:
                self._corrections[direction] = correction_of(
                    self._params, self.run, self._criterion, self._network, direction
                )
            return self._corrections[direction]

    def keep(self) -> None:
        """Write to data/search/ what makes the next start faster; after an answer, so that nobody waits for it."""
        for gallery in self._network.galleries:
            gallery.keep()

    def _answer(self, query: str, direction: str, ask: Callable[[], Asked], k: int) -> Answer:
        if k < 1:
            raise UsageError(f"k is {k}; ask for at least one result")
        started = time.monotonic()
        asked = ask()
        scores = self.correction(direction).apply(self._scores(asked.side, direction))
        values, places = best(scores.cpu().numpy(), k)
        hits = tuple(
            self._hit(rank, float(value), int(place), direction)
            for rank, (value, place) in enumerate(zip(values, places, strict=True), start=1)
        )
        seconds = time.monotonic() - started
        return Answer(query, self.run, self.inference, hits, asked.unknown, seconds, asked.notes)

    def _scores(self, query: Sides, direction: str) -> Float[Tensor, " items"]:
        """Images are the first argument of a similarity, captions the second."""
        if direction == TO_CAPTIONS and not self.counts["captions"]:
            raise InputError(
                f"data set '{self._catalogue.dataset}' has no captions of split '{self.split}' to find; search with a sentence"
            )
        items = self._network.images() if direction == TO_IMAGES else self._network.captions()
        with self._lock:
            self._similarity = self._similarity or self._network.similarity()
        similarity = self._similarity
        size = len(items) if plain(items) else _TILE
        tiles = [items[start : start + size] for start in range(0, len(items), size)]
        with torch.inference_mode():
            if direction == TO_IMAGES:
                return torch.cat([similarity(tile, query)[:, 0] for tile in tiles])
            return torch.cat([similarity(query, tile)[0] for tile in tiles])

    def _hit(self, rank: int, score: float, place: int, direction: str) -> Hit:
        ids = self._network.ids
        if direction == TO_IMAGES:
            image, caption = int(ids.image_ids[place]), None
            text = self._catalogue.first_caption(image)
        else:
            image, caption = int(ids.caption_images[place]), int(ids.caption_ids[place])
            text = self._catalogue.text(caption)
        described = None if caption is None else self._shown("caption_id", caption)
        return Hit(rank, score, self._shown("image_id", image), described, text, self._catalogue.file(image))


def best(scores: Float[np.ndarray, " items"], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and places of the min(k, items) best, best first, equal scores in the order of the items, as the evaluation
    has them. Raises InputError on scores that are not finite."""
    if not np.isfinite(scores).all():
        raise InputError("the model gives scores that are not finite for this query")
    k = min(k, len(scores))
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    reach = np.flatnonzero(scores >= threshold)
    places = reach[np.argsort(-scores[reach], kind="stable")][:k]
    return scores[places], places


def _check_known(kind: str, name: str, known: list[str] | tuple[str, ...]) -> None:
    if name not in known:
        raise UsageError(unknown(kind, name, known))
