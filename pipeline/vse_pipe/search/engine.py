"""Search in a run's embeddings: opened once, searched many times."""

import copy
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock, RLock
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64

from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.pictures import images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.fragments import Several, Sides, plain, pooled
from vse_pipe.ranking.scores import Similarity
from vse_pipe.search import correction, query
from vse_pipe.search.correction import Calibration, Correction
from vse_pipe.search.gallery import SPLITS
from vse_pipe.search.network import EncodedQuery, Network, open_run
from vse_pipe.search.query import TO_IMAGES, Answer, Hit, Limits, Term

_TEN = Limits()
_NONE = np.empty(0, np.int64)
# Rounding error of the cosine of equal vectors.
_ROUNDING = 1e-6


# The place of a hit and those of its near duplicates.
Leader = tuple[int, np.ndarray]


class Engine:
    """One run, criterion and split. Vectors, models and corrections are loaded when a query first needs them. Several
    threads may search at once.

    counts: searched ``images`` and ``captions``; left_out: unreadable ones of the split, which have no embedding, empty
    if there are none; named: are the ids of images text, in hits and queries too?
    """

    def __init__(self, params: Params, run: str, inference: str, split: str, device: str) -> None:
        self.run, self.inference, self.split = run, inference, split
        self._params, self._criterion = params, correction.criterion_of(params, inference)
        self._network = open_run(params, run, split, resolve_device(device))
        galleries, ids = self._network.galleries, self._network.ids
        self._catalogue = Catalogue.read(paths.prepared(params.dataset(run)))
        for gallery in galleries:
            gallery.require_current()
        self.counts = {"images": len(ids.image_ids), "captions": len(ids.caption_ids)}
        self.left_out = galleries[0].left_out
        self.named = self._catalogue.has_named_images
        self._lock, self._scoring = RLock(), Scoring(self._network)
        self._corrections: dict[str, Correction] = {}
        self._calibrations: dict[str, Calibration] = {}

    @classmethod
    def open(cls, params: Params, run: str, inference: str = "nns", split: str = "test", device: str = "auto") -> Self:
        """Raises UsageError for an unknown run, criterion, split or device and for a criterion that needs all queries
        at once; MissingResource with the command that makes a missing file; IntegrityError for embeddings of another
        model, or of other images or captions than the present ones."""
        for kind, name, choices in (("run", params.one_model(run), params.evaluated()), ("split", split, SPLITS)):
            if name not in choices:
                raise UsageError(unknown(kind, name, choices))
        return cls(params, run, inference, split, device)

    def under(self, inference: str) -> "Engine":
        """An engine with another criterion and the same vectors and models in memory. Raises UsageError as ``open``."""
        engine = copy.copy(self)
        engine.inference, engine._criterion = inference, correction.criterion_of(self._params, inference)
        engine._corrections, engine._calibrations = {}, {}
        return engine

    def by_text(self, text: str, k: int = 10) -> Answer:
        """The images that fit a sentence best. Raises InputError for a sentence without a known word."""
        return self.ask((Term(query.TEXT, text),), Limits(k))

    def by_image(self, content: bytes, k: int = 10, name: str = "a photo") -> Answer:
        """The captions that fit a photo best. content: bytes of its file; name: in the answer. Raises InputError if it
        is no picture, UsageError if the run's features were computed elsewhere."""
        return self.ask((Term(query.PHOTO, name, content=content),), Limits(k))

    def by_image_id(self, image_id: int | str, k: int = 10) -> Answer:
        """The captions that fit an image of the data set, of any split, without loading a model. Raises InputError for
        an unknown image, UsageError for text if ids are numbers."""
        return self.ask((Term(query.IMAGE, str(image_id)),), Limits(k))

    def ask(self, parts: Sequence[Term], limits: Limits = _TEN) -> Answer:
        """The items that fit a query of any parts, see ``Scoring.scores``, corrected by the bank of their direction.
        Images of the query are no hits.

        Raises as ``Limits.check``, ``query.direction``, ``Catalogue.fitting``, ``Scoring.scores``, ``by_text`` and
        ``by_image_id``.
        """
        limits.check()
        direction = query.direction(parts, limits.to, self.counts["captions"])
        if direction == query.TO_CAPTIONS and not self.counts["captions"]:
            raise InputError(
                f"data set '{self._catalogue.dataset}' has no captions of split '{self.split}'; find images: --to {query.IMAGES}"
            )
        started = time.monotonic()
        calibration = None
        if limits.least is not None:
            require_native(parts, direction)
            calibration = self.calibration(direction)
        mask, narrowed = self._mask(parts, limits, direction)
        encoded = [self._encoded(part) for part in parts]
        raw = self._scoring.scores(parts, [row.side for row in encoded], direction)
        corrected = self.correction(direction).apply(raw)
        if calibration and limits.least is not None:
            mask &= calibration(corrected) >= limits.least
        places = self._best(corrected, mask, limits, direction)[limits.offset :]
        hits = [
            self._hit(rank, float(corrected[leader[0]]), leader, direction, calibration)
            for rank, leader in enumerate(places, start=limits.offset + 1)
        ]
        is_sentence = len(parts) == 1 and parts[0].kind == query.TEXT and direction == TO_IMAGES
        image_ids = [int(self._network.ids.image_ids[place]) for place, _ in places] if is_sentence else []
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
            calibration=calibration.about if calibration else {},
            regions=tuple(self._network.regions(parts[0].value, image_ids)) if image_ids else (),
        )

    def picture(self, image_id: int | str) -> Path | None:
        """The path of an image of the data set, as of ``Catalogue.path``; None if the file is missing or only features
        exist. Raises as ``by_image_id``."""
        return self._catalogue.path(self._catalogue.image_number(image_id))

    def content(self, image_id: int | str) -> bytes | None:
        """The bytes of ``picture`` for a page. Raises as ``picture`` and ``require_pictures``."""
        return self._catalogue.content(self._catalogue.image_number(image_id))

    def require_pictures(self, image_ids: Iterable[int | str]) -> None:
        """Raises IntegrityError for a picture of another content than that of which vectors and captions are."""
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

    def calibration(self, direction: str) -> Calibration:
        """The calibration of the corrected scores of one direction, fitted at the first call."""
        with self._lock:
            if direction not in self._calibrations:
                self._calibrations[direction] = correction.calibration_of(
                    self._params, self.run, self._criterion, self._network, self.correction(direction), direction
                )
            return self._calibrations[direction]

    def _encoded(self, part: Term) -> EncodedQuery:
        if part.kind == query.TEXT:
            return self._network.sentence(part.value)
        if part.kind == query.IMAGE:
            return self._network.image(self._catalogue.image_number(part.value))
        assert part.content is not None
        return self._network.photo(part.content, part.value)

    def _mask(self, parts: Sequence[Term], limits: Limits, direction: str) -> tuple[np.ndarray, dict]:
        """(mask, narrowed): bool (items,) of possible hits, and the limits as the answer names them."""
        ids = self._network.ids
        owners = ids.image_ids if direction == TO_IMAGES else ids.caption_images
        mask, shares = np.ones(len(owners), bool), {"group": limits.group, "min_probability": limits.least}
        narrowed: dict = {name: value for name, value in shares.items() if value is not None}
        if limits.where:
            mask = np.isin(owners, self._catalogue.fitting(limits.where))
            narrowed |= {"where": list(limits.where), "left": int(mask.sum())}
        queried = [
            self._catalogue.image_number(part.value)
            for part in parts
            if part.kind == query.IMAGE and direction == TO_IMAGES
        ]
        return mask & np.isin(owners, queried, invert=True) if queried else mask, narrowed

    def _best(self, corrected: np.ndarray, mask: np.ndarray, limits: Limits, direction: str) -> list[Leader]:
        count = limits.offset + limits.k
        if limits.group is None:
            places = np.flatnonzero(mask)
            return [(place, _NONE) for place in places[best_places(corrected[places], count)].tolist()]
        units, least = self._scoring.units(direction), limits.group - _ROUNDING

        def is_similar(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return np.asarray(units[rows] @ units[columns].T >= least)

        return leaders(corrected, mask, count, is_similar)

    def _hit(self, rank: int, score: float, leader: Leader, direction: str, calibration: Calibration | None) -> Hit:
        place, duplicates = leader
        ids = self._network.ids
        key, item_ids = ("image_id", ids.image_ids) if direction == TO_IMAGES else ("caption_id", ids.caption_ids)
        number = int(item_ids[place])
        if direction == TO_IMAGES:
            image, text = number, self._catalogue.first_caption(number)
        else:
            image, text = int(ids.caption_images[place]), self._catalogue.text(number)
        width, height = self._catalogue.size(image)
        return Hit(
            rank=rank,
            score=score,
            image_id=self._catalogue.label("image_id", image),
            caption_id=None if direction == TO_IMAGES else self._catalogue.label(key, number),
            text=text,
            file=self._catalogue.file(image),
            alike=tuple(self._catalogue.label(key, item) for item in item_ids[duplicates[: query.MOST_ALIKE]].tolist()),
            alike_count=len(duplicates),
            probability=float(calibration(np.array([score]))[0]) if calibration else None,
            width=width,
            height=height,
        )


# Values of vectors in a tile, where a similarity makes copies, and items with fragments in a tile.
_NUMBERS, _TILE = 1 << 24, 2048
# Below this length a sum of unit vectors is only rounding error.
_NOTHING = 1e-5
# Items in a block that is compared with all leaders.
_BLOCK = 512


class Scoring:
    """Scores of the items of a network, for several threads at once. Vectors are loaded when they are first needed."""

    def __init__(self, network: Network) -> None:
        self._network = network
        # Images and captions lie in one space of unit vectors, so that all of them can be compared.
        self._is_joint = all(gallery.inner for gallery in network.galleries)
        self._similarity: Similarity | None = None
        self._units: dict[str, Float32[np.ndarray, "items dim"]] = {}
        self._lock = Lock()

    def scores(self, parts: Sequence[Term], sides: Sequence[Sides], direction: str) -> Float32[np.ndarray, " items"]:
        """Scores of the items. sides: one row for each part.

        A single part that the model compares with the items has the model's score. In a joint space several parts are
        one query: the weighted sum of their unit vectors, scaled to unit length, in the space of each network. Without
        a joint space the score is ``sum(w * s) / sum(|w|)`` over the parts. Raises UsageError if the model cannot
        compare a part with the items, InputError if the parts cancel out.
        """
        weights = [part.weight for part in parts]
        comparable = all(is_native(part, direction) for part in parts)
        if len(parts) == 1 and comparable:
            return self._compared(sides[0], direction)
        if self._is_joint:
            return self._compared(_sum(sides, weights), direction)
        if not comparable:
            items, kind = ("images", "text") if direction == TO_IMAGES else ("captions", "pictures")
            raise UsageError(
                f"this model compares images with captions alone, not in one space of vectors: its {items} are searched with {kind}"
            )
        scaled = [weight * self._compared(side, direction) for side, weight in zip(sides, weights, strict=True)]
        return np.asarray(sum(scaled) / sum(map(abs, weights)))

    def units(self, direction: str) -> Float32[np.ndarray, "items dim"]:
        """The items at unit length; for fragments their means."""
        with self._lock:
            if direction not in self._units:
                units = pooled(self._items(direction))
                if not self._is_joint:
                    units = torch.nn.functional.normalize(units, dim=1)
                self._units[direction] = units.cpu().numpy()
            return self._units[direction]

    def _items(self, direction: str) -> Any:
        return self._network.images() if direction == TO_IMAGES else self._network.captions()

    def _compared(self, side: Sides, direction: str) -> Float32[np.ndarray, " items"]:
        """The model's scores. Images are the first argument of a similarity, captions the second."""
        items = self._items(direction)
        with self._lock:
            self._similarity = self._similarity or self._network.similarity()
        similarity = self._similarity
        size = max(1, _NUMBERS // items.shape[1]) if plain(items) else _TILE
        tiles = [items[start : start + size] for start in range(0, len(items), size)]
        with torch.inference_mode():
            if direction == TO_IMAGES:
                scores = torch.cat([similarity(tile, side)[:, 0] for tile in tiles])
            else:
                scores = torch.cat([similarity(side, tile)[0] for tile in tiles])
        return scores.cpu().numpy()


def is_native(part: Term, direction: str) -> bool:
    """Does the model compare parts of this kind with the items?"""
    return (part.kind == query.TEXT) == (direction == TO_IMAGES)


def require_native(parts: Sequence[Term], direction: str) -> None:
    """Raises UsageError unless there is one part, compared as in training: other queries have scores of another
    scale."""
    if len(parts) > 1 or not is_native(parts[0], direction):
        raise UsageError(
            "a probability of a match is that of one sentence and an image, or of one picture and a caption; leave it out for other queries"
        )


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
    """Places of the min(k, items) best items, best first, equal scores in the order of the items, as in the evaluation.
    Raises InputError for scores that are not finite."""
    if not np.isfinite(scores).all():
        raise InputError("the model gives scores that are not finite for this query")
    k = min(k, len(scores))
    if not k:
        return np.empty(0, np.int64)
    reach = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
    return reach[np.argsort(-scores[reach], kind="stable")][:k]


def leaders(
    scores: Float[np.ndarray, " items"],
    allowed: Bool[np.ndarray, " items"],
    k: int,
    is_similar: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> list[Leader]:
    """Places of at most k leaders, best first, each with its group of near duplicates, best first.

    allowed: items that count; is_similar: (places of rows, places of columns) to a bool matrix. In the order of the
    scores every item is compared with the leaders before it. It joins the group of the first similar leader, or else
    becomes a leader.
    """
    ranked = np.flatnonzero(allowed)
    ranked = ranked[np.argsort(-scores[ranked], kind="stable")]
    places, groups = list[int](), np.full(len(ranked), -1)
    for start in range(0, len(ranked), _BLOCK):
        block, group = ranked[start : start + _BLOCK], groups[start : start + _BLOCK]
        if places:
            same = is_similar(block, np.array(places))
            group[:] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
        while len(places) < k and (group < 0).any():
            left = np.flatnonzero(group < 0)
            near = is_similar(block[left], block[left[:1]])[:, 0]
            near[0] = True
            group[left[near]] = len(places)
            places.append(int(block[left[0]]))
    return [(place, ranked[groups == number][1:]) for number, place in enumerate(places)]
