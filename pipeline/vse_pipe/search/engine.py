"""Search in a run's embeddings: opened once, searched many times."""

import copy
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64

from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.pictures import images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.criteria import foldable
from vse_pipe.ranking.fragments import Several, Sides, plain
from vse_pipe.search import correction, query
from vse_pipe.search.correction import Correction
from vse_pipe.search.network import SPLITS, EncodedQuery, Network, open_run
from vse_pipe.search.query import TO_IMAGES, Answer, Hit, Limits, Term

_TEN = Limits()
# Values of vectors in a tile, where a similarity makes copies, and items with fragments in a tile.
_NUMBERS, _TILE = 1 << 24, 2048
# Below this length a sum of unit vectors is only rounding error.
_NOTHING = 1e-5


class Engine:
    """One run, criterion and split. Vectors, models and corrections are loaded when a query first
    needs them. Several threads may search at once.

    counts: searched ``images`` and ``captions``; left_out: unreadable ones of the split, which have
    no embedding, empty if there are none; named: are the ids of images text, in hits and queries
    too?
    """

    def __init__(self, params: Params, run: str, inference: str, split: str, device: str) -> None:
        self.run, self.inference, self.split = run, inference, split
        self._params, self._criterion = params, foldable(inference, params.inference)
        self._network = open_run(params, run, split, resolve_device(device))
        self._catalogue = Catalogue.read(paths.prepared(params.dataset(run)))
        items = self._network.items
        self.counts = {"images": len(items.image_ids), "captions": len(items.caption_ids)}
        self.left_out = self._network.left_out
        self.named = self._catalogue.has_named_images
        self._lock = RLock()
        self._corrections: dict[str, Correction] = {}

    @classmethod
    def open(cls, params: Params, run: str, inference: str = "nns", split: str = "test", device: str = "auto") -> Self:
        """Raises UsageError for an unknown run, criterion, split or device and for a criterion that
        needs all queries at once; MissingResource with the command that makes a missing file;
        IntegrityError for embeddings of another model, or of other images or captions than the
        present ones."""
        for kind, name, choices in (("run", params.one_model(run), params.evaluated()), ("split", split, SPLITS)):
            if name not in choices:
                raise UsageError(unknown(kind, name, choices))
        return cls(params, run, inference, split, device)

    def under(self, inference: str) -> "Engine":
        """An engine with another criterion, the same vectors and models. Raises as ``open``."""
        engine = copy.copy(self)
        engine.inference, engine._criterion = inference, foldable(inference, self._params.inference)
        engine._corrections = {}
        return engine

    def by_text(self, text: str, k: int = 10) -> Answer:
        """The images that fit a sentence best. Raises InputError without a known word."""
        return self.ask((Term(query.TEXT, text),), Limits(k))

    def ask(self, parts: Sequence[Term], limits: Limits = _TEN) -> Answer:
        """The items that fit a query of any parts, see ``scores``, corrected by the bank of
        their direction. Images of the query are no hits.

        Raises as ``query.direction``, ``Catalogue.fitting`` and ``scores``, InputError
        without a known word, for a file that is no picture and for an unknown image.
        """
        direction = query.direction(parts, limits.to, self.counts["captions"])
        if direction == query.TO_CAPTIONS and not self.counts["captions"]:
            raise InputError(
                f"data set '{self._catalogue.dataset}' has no captions of split '{self.split}'; find images: --to {query.IMAGES}"
            )
        started = time.monotonic()
        mask, narrowed = self._mask(parts, limits, direction)
        encoded = [self._encoded(part) for part in parts]
        raw = scores(self._network, parts, [row.side for row in encoded], direction)
        corrected = self.correction(direction).apply(raw)
        places = np.flatnonzero(mask)
        places = places[best_places(corrected[places], limits.offset + limits.k)[limits.offset :]]
        hits = [
            self._hit(rank, float(corrected[place]), int(place), direction)
            for rank, place in enumerate(places, start=limits.offset + 1)
        ]
        is_sentence = len(parts) == 1 and parts[0].kind == query.TEXT and direction == TO_IMAGES
        image_ids = self._network.items.image_ids[places].tolist() if is_sentence else []
        described = ({"kind": part.kind, "value": part.value, "weight": part.weight} for part in parts)
        return Answer(
            query=query.described(parts),
            run=self.run,
            inference=self.inference,
            hits=tuple(hits),
            unknown=tuple(dict.fromkeys(word for row in encoded for word in row.wording.unknown)),
            seconds=time.monotonic() - started,
            notes=tuple(dict.fromkeys(note for row in encoded for note in row.wording.notes)),
            parts=tuple(described) if len(parts) > 1 else (),
            narrowed=narrowed,
            regions=tuple(self._network.regions(parts[0].value, image_ids)) if image_ids else (),
        )

    def picture(self, image_id: int | str) -> Path | None:
        """The path of an image of the data set, as of ``Catalogue.path``; None if the file is
        missing or only features exist."""
        return self._catalogue.path(self._catalogue.image_number(image_id))

    def content(self, image_id: int | str) -> bytes | None:
        """The bytes of ``picture`` for a page. Raises as ``picture`` and ``require_pictures``."""
        return self._catalogue.content(self._catalogue.image_number(image_id))

    def require_pictures(self, image_ids: Iterable[int | str]) -> None:
        """Raises IntegrityError for a picture of another content than that of its vector."""
        for image_id in image_ids:
            self._catalogue.content(self._catalogue.image_number(image_id), images.file_bytes)

    def correction(self, direction: str) -> Correction:
        """The criterion's correction of the items of one direction, computed at the first call."""
        with self._lock:
            if direction not in self._corrections:
                self._corrections[direction] = correction.correction_of(
                    self._params, self.run, self._criterion, self._network, direction
                )
            return self._corrections[direction]

    def _encoded(self, part: Term) -> EncodedQuery:
        if part.kind == query.TEXT:
            return self._network.sentence(part.value)
        if part.kind == query.IMAGE:
            return self._network.image(self._catalogue.image_number(part.value))
        assert part.content is not None
        return self._network.photo(part.content, part.value)

    def _mask(self, parts: Sequence[Term], limits: Limits, direction: str) -> tuple[np.ndarray, dict]:
        """(mask, narrowed): bool (items,) of possible hits, and the limits as the answer names
        them."""
        ids = self._network.items
        owners = ids.image_ids if direction == TO_IMAGES else ids.caption_images
        mask = np.ones(len(owners), bool)
        narrowed: dict = {}
        if limits.where:
            mask = np.isin(owners, self._catalogue.fitting(limits.where))
            narrowed = {"where": list(limits.where), "left": int(mask.sum())}
        queried = [
            self._catalogue.image_number(part.value)
            for part in parts
            if part.kind == query.IMAGE and direction == TO_IMAGES
        ]
        return mask & np.isin(owners, queried, invert=True) if queried else mask, narrowed

    def _hit(self, rank: int, score: float, place: int, direction: str) -> Hit:
        ids, caption = self._network.items, None
        if direction == TO_IMAGES:
            image = int(ids.image_ids[place])
            text = self._catalogue.first_caption(image)
        else:
            image, number = int(ids.caption_images[place]), int(ids.caption_ids[place])
            caption, text = self._catalogue.label("caption_id", number), self._catalogue.text(number)
        width, height = self._catalogue.size(image)
        return Hit(
            rank=rank,
            score=score,
            image_id=self._catalogue.label("image_id", image),
            caption_id=caption,
            text=text,
            file=self._catalogue.file(image),
            width=width,
            height=height,
        )


def scores(
    network: Network, parts: Sequence[Term], sides: Sequence[Sides], direction: str
) -> Float32[np.ndarray, " items"]:
    """Scores of the items. sides: one row for each part.

    A single part that the model compares with the items has the model's score. In a joint space
    several parts are one query: the weighted sum of their unit vectors, scaled to unit length.
    Without a joint space the score is ``sum(w * s) / sum(|w|)``
    over the parts. Raises UsageError if the model cannot compare a part with the items,
    InputError if the parts cancel out.
    """
    weights = [part.weight for part in parts]
    comparable = all(_is_native(part, direction) for part in parts)
    if len(parts) == 1 and comparable:
        return _compared(network, sides[0], direction)
    if network.is_joint:
        return _compared(network, _sum(sides, weights), direction)
    if not comparable:
        items, kind = ("images", "text") if direction == TO_IMAGES else ("captions", "pictures")
        raise UsageError(
            f"this model compares images with captions alone, not in one space of vectors: its {items} are searched with {kind}"
        )
    scaled = [weight * _compared(network, side, direction) for side, weight in zip(sides, weights, strict=True)]
    return np.asarray(sum(scaled) / sum(map(abs, weights)))


def _compared(network: Network, side: Sides, direction: str) -> Float32[np.ndarray, " items"]:
    """The model's scores. Images are the first argument of a similarity, captions the second."""
    split, similarity = network.items, network.similarity
    items: Any = split.images if direction == TO_IMAGES else split.captions
    size = max(1, _NUMBERS // items.shape[1]) if plain(items) else _TILE
    tiles = [items[start : start + size] for start in range(0, len(items), size)]
    with torch.inference_mode():
        if direction == TO_IMAGES:
            rows = torch.cat([similarity(tile, side)[:, 0] for tile in tiles])
        else:
            rows = torch.cat([similarity(side, tile)[0] for tile in tiles])
    return rows.cpu().numpy()


def _is_native(part: Term, direction: str) -> bool:
    """Does the model compare parts of this kind with the items?"""
    return (part.kind == query.TEXT) == (direction == TO_IMAGES)


def _sum(sides: Sequence[Any], weights: Sequence[float]) -> Any:
    first = sides[0]
    if isinstance(first, Several):
        columns = zip(*(side.parts for side in sides), strict=True)
        return replace(first, parts=tuple(_sum(parts, weights) for parts in columns))
    units = torch.nn.functional.normalize(torch.cat(list(sides)), dim=1)
    total = (units * units.new_tensor(weights)[:, None]).sum(dim=0, keepdim=True)
    length = float(total.norm())
    if length < _NOTHING * max(map(abs, weights)):
        raise InputError("the parts of the query cancel out: nothing is left to look for")
    return total / length


def best_places(scores: Float[np.ndarray, " items"], k: int) -> Int64[np.ndarray, " best"]:
    """Places of the min(k, items) best items, best first, equal scores in the order of the items,
    as in the evaluation. Raises InputError for scores that are not finite."""
    if not np.isfinite(scores).all():
        raise InputError("the model gives scores that are not finite for this query")
    k = min(k, len(scores))
    if not k:
        return np.empty(0, np.int64)
    reach = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
    return reach[np.argsort(-scores[reach], kind="stable")][:k]
