"""Search in a run's embeddings: opened once, searched many times."""

import copy
import time
from collections.abc import Sequence
from pathlib import Path
from threading import RLock

import numpy as np

from vse_pipe.artifacts import names
from vse_pipe.core import text
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, UsageError, unknown
from vse_pipe.project.params.typed import Params
from vse_pipe.project.paths import one_model
from vse_pipe.tools.search import correction, query, scores
from vse_pipe.tools.search.answer import SHOWN, Answer, Hit
from vse_pipe.tools.search.catalogue import Catalogue
from vse_pipe.tools.search.correction import Calibration, Correction
from vse_pipe.tools.search.gallery import SPLITS
from vse_pipe.tools.search.network import EncodedQuery, open_run
from vse_pipe.tools.search.query import IMAGE, PHOTO, TEXT, TO_CAPTIONS, TO_IMAGES, Limits, Term
from vse_pipe.tools.search.scores import Scoring

_TEN = Limits()
_NONE = np.empty(0, np.int64)
# Rounding error of the cosine of equal vectors.
_ROUNDING = 1e-6


class Engine:
    """One run, criterion and split. Vectors, models and corrections are loaded when a query first needs them. Several threads may
    search at once.

    counts: searched ``images`` and ``captions``; left_out: unreadable ones of the split, which have no embedding, empty if there
    are none; named: are the ids of images text, in hits and queries too?
    """

    def __init__(self, params: Params, run: str, inference: str, split: str, device: str) -> None:
        self.run, self.inference, self.split = run, inference, split
        self._params, self._criterion = params, correction.criterion_of(params, inference)
        self._network = open_run(params, run, split, resolve_device(device))
        galleries, ids = self._network.galleries, self._network.ids
        self._catalogue = Catalogue.read(params.dataset(run), *(gallery.origin for gallery in galleries))
        self.counts = {"images": len(ids.image_ids), "captions": len(ids.caption_ids)}
        self.left_out = galleries[0].left_out
        self._names = names.read(galleries[0].folder)
        self.named = self._names is not None and self._names.has("image_id")
        self._lock, self._scoring = RLock(), Scoring(self._network)
        self._corrections: dict[str, Correction] = {}
        self._calibrations: dict[str, Calibration] = {}

    @classmethod
    def open(
        cls, params: Params, run: str, inference: str = "nns", split: str = "test", device: str = "auto"
    ) -> "Engine":
        """Raises UsageError for an unknown run, criterion, split or device and for a criterion that needs all queries at once;
        MissingResource with the command that makes a missing file; IntegrityError for embeddings of another model, or of other
        images or captions than the present ones."""
        for kind, name, choices in (("run", one_model(params, run), params.evaluated()), ("split", split, SPLITS)):
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
        return self.ask((Term(TEXT, text),), Limits(k))

    def by_image(self, content: bytes, k: int = 10, name: str = "a photo") -> Answer:
        """The captions that fit a photo best. content: bytes of its file; name: in the answer. Raises InputError if it is no
        picture, UsageError if the run's features were computed elsewhere."""
        return self.ask((Term(PHOTO, name, content=content),), Limits(k))

    def by_image_id(self, image_id: int | str, k: int = 10) -> Answer:
        """The captions that fit an image of the data set, of any split, without loading a model. Raises InputError for an unknown
        image, UsageError for text if ids are numbers."""
        return self.ask((Term(IMAGE, str(image_id)),), Limits(k))

    def ask(self, parts: Sequence[Term], limits: Limits = _TEN) -> Answer:
        """The items that fit a query of any parts, see ``Scoring.scores``, corrected by the bank of their direction. Images of the
        query are no hits.

        Raises as ``Limits.check``, ``query.direction``, ``catalogue.rows_where``, ``Scoring.scores``, ``by_text`` and ``by_image_id``.
        """
        limits.check()
        direction = query.direction(parts, limits.to, self.counts["captions"])
        if direction == TO_CAPTIONS and not self.counts["captions"]:
            raise InputError(
                f"data set '{self._catalogue.dataset}' has no captions of split '{self.split}'; find images: --to {query.IMAGES}"
            )
        started = time.monotonic()
        calibration = None
        if limits.probability or limits.least is not None:
            scores.require_native(parts, direction)
            calibration = self.calibration(direction)
        mask, narrowed = self._mask(parts, limits, direction)
        encoded = [self._encoded(part) for part in parts]
        raw = self._scoring.scores(parts, [row.side for row in encoded], direction)
        corrected = self.correction(direction).apply(raw)
        if calibration and limits.least is not None:
            mask &= calibration(corrected) >= limits.least
        places = self._best(corrected, mask, limits, direction)[limits.offset :]
        hits = [
            self._hit(rank, float(corrected[place]), place, duplicates, direction, calibration)
            for rank, (place, duplicates) in enumerate(places, start=limits.offset + 1)
        ]
        return Answer(
            query=query.described(parts),
            run=self.run,
            inference=self.inference,
            hits=tuple(hits),
            unknown=tuple(dict.fromkeys(word for row in encoded for word in row.unknown)),
            seconds=time.monotonic() - started,
            notes=tuple(dict.fromkeys(note for row in encoded for note in row.notes)),
            parts=tuple(
                {"kind": part.kind, "value": part.value, "weight": part.weight} for part in parts if len(parts) > 1
            ),
            narrowed=narrowed,
            calibration=calibration.about if calibration else {},
        )

    def picture(self, image_id: int | str) -> Path | None:
        """The path of an image of the data set for ``sources.read.at``; None if the file is missing or only features exist. Raises
        as ``by_image_id``."""
        return self._catalogue.path(self._number(image_id))

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
                corrected = self.correction(direction)
                self._calibrations[direction] = correction.calibration_of(
                    self._params, self.run, self._criterion, self._network, corrected, direction
                )
            return self._calibrations[direction]

    def _encoded(self, part: Term) -> EncodedQuery:
        if part.kind == TEXT:
            return self._network.sentence(part.value)
        if part.kind == IMAGE:
            return self._network.image(self._number(part.value))
        assert part.content is not None
        return self._network.photo(part.content, part.value)

    def _mask(self, parts: Sequence[Term], limits: Limits, direction: str) -> tuple[np.ndarray, dict]:
        """(mask, narrowed): bool (items,) of possible hits, and the limits as the answer names them."""
        ids = self._network.ids
        owners = ids.image_ids if direction == TO_IMAGES else ids.caption_images
        mask, shares = np.ones(len(owners), bool), {"group": limits.group, "min_probability": limits.least}
        narrowed: dict = {name: value for name, value in shares.items() if value is not None}
        if limits.where is not None:
            mask = np.isin(owners, self._catalogue.fitting(limits.where, self._names))
            narrowed |= {"where": limits.where, "left": int(mask.sum())}
        queried = [self._number(part.value) for part in parts if part.kind == IMAGE and direction == TO_IMAGES]
        return mask & np.isin(owners, queried, invert=True) if queried else mask, narrowed

    def _best(
        self, corrected: np.ndarray, mask: np.ndarray, limits: Limits, direction: str
    ) -> list[tuple[int, np.ndarray]]:
        """Places of the hits, from the first one without ``offset``, and of the near duplicates of each."""
        count = limits.offset + limits.k
        if limits.group is None:
            places = np.flatnonzero(mask)
            return [(place, _NONE) for place in places[scores.best(corrected[places], count)].tolist()]
        units, least = self._scoring.units(direction), limits.group - _ROUNDING
        return scores.leaders(
            corrected, mask, count, lambda rows, columns: np.asarray(units[rows] @ units[columns].T >= least)
        )

    def _hit(
        self,
        rank: int,
        score: float,
        place: int,
        duplicates: np.ndarray,
        direction: str,
        calibration: Calibration | None,
    ) -> Hit:
        ids = self._network.ids
        key, item_ids = ("image_id", ids.image_ids) if direction == TO_IMAGES else ("caption_id", ids.caption_ids)
        number = int(item_ids[place])
        if direction == TO_IMAGES:
            image, text = number, self._catalogue.first_caption(number)
        else:
            image, text = int(ids.caption_images[place]), self._catalogue.text(number)
        return Hit(
            rank=rank,
            score=score,
            image_id=self._label("image_id", image),
            caption_id=None if direction == TO_IMAGES else self._label(key, number),
            text=text,
            file=self._catalogue.file(image),
            alike=tuple(self._label(key, item) for item in item_ids[duplicates[:SHOWN]].tolist()),
            alike_count=len(duplicates),
            probability=float(calibration(np.array([score]))[0]) if calibration else None,
        )

    def _number(self, image_id: int | str) -> int:
        """The pipeline's number of an image."""
        if self.named and self._names is not None:
            number = self._names.number("image_id", str(image_id))
            if number is None:
                raise InputError(f"data set '{self._catalogue.dataset}' has no image {text.shown_id(str(image_id))}")
            return number
        try:
            return int(image_id)
        except ValueError as error:
            raise UsageError(f"image_id must be a whole number, got {text.shown_id(str(image_id))}") from error

    def _label(self, key: str, number: int) -> int | str:
        """The data set's id of an item."""
        return number if self._names is None else self._names.label(key, number)
