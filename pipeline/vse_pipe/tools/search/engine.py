"""A run's embeddings, opened once and searched many times."""

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
from vse_pipe.project.repetitions import one_model
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
# What a cosine of equal vectors may lack of 1.
_ROUNDING = 1e-6


class Engine:
    """One run, criterion and split. Vectors, models and corrections are loaded when a query first needs them; queries may
    come from several threads at once.

    counts: ``images`` and ``captions`` that are searched; left_out: those of the split that could not be read and have no
    embedding, empty where all have one; named: are the images' ids text? Those of hits and queries are then.
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
        """Raises UsageError for an unknown run, criterion, split or device and for a criterion that needs all queries at
        once; MissingResource naming the command that makes what is not there; IntegrityError for embeddings of another
        model, or of other images or captions, than there are now."""
        for kind, name, choices in (("run", one_model(params, run), params.evaluated()), ("split", split, SPLITS)):
            if name not in choices:
                raise UsageError(unknown(kind, name, choices))
        return cls(params, run, inference, split, device)

    def under(self, inference: str) -> "Engine":
        """The same under another criterion, with the same vectors and models in memory. Raises UsageError as ``open``."""
        other = copy.copy(self)
        other.inference, other._criterion = inference, correction.criterion_of(self._params, inference)
        other._corrections, other._calibrations = {}, {}
        return other

    def by_text(self, text: str, k: int = 10) -> Answer:
        """The images that a sentence describes best. Raises InputError for a sentence that holds nothing to look for."""
        return self.ask((Term(TEXT, text),), Limits(k))

    def by_image(self, content: bytes, k: int = 10, name: str = "a photo") -> Answer:
        """The captions that fit a photo best, from the bytes of its file. Raises InputError when it is no picture,
        UsageError where the run's features were computed elsewhere. name: what the answer calls it."""
        return self.ask((Term(PHOTO, name, content=content),), Limits(k))

    def by_image_id(self, image_id: int | str, k: int = 10) -> Answer:
        """The captions that fit an image of the data set, of any split; no model is loaded. Raises InputError for an unknown one,
        UsageError for a text where ids are numbers."""
        return self.ask((Term(IMAGE, str(image_id)),), Limits(k))

    def ask(self, parts: Sequence[Term], limits: Limits = _TEN) -> Answer:
        """What fits a query of any parts, see ``Scoring.scores``; the criterion corrects the scores of the items, by the bank
        of their direction, whatever the query is made of. Images of the query are not among the images that are hits.

        Raises as ``Limits.check``, ``query.direction``, ``catalogue.rows_where``, ``Scoring.scores``, ``by_text`` and ``by_image_id``.
        """
        limits.check()
        direction = query.direction(parts, limits.to, self.counts["captions"])
        if direction == TO_CAPTIONS and not self.counts["captions"]:
            raise InputError(
                f"data set '{self._catalogue.dataset}' has no captions of split '{self.split}'; find images: --to {query.IMAGES}"
            )
        started = time.monotonic()
        calibration = self._calibration(parts, limits, direction)
        mask, narrowed = self._mask(parts, limits, direction)
        encoded = [self._encoded(part) for part in parts]
        sides = [one.side for one in encoded]
        corrected = self.correction(direction).apply(self._scoring.scores(parts, sides, direction))
        if calibration and limits.least is not None:
            mask &= calibration(corrected) >= limits.least
        places = self._best(corrected, mask, limits, direction)[limits.offset :]
        hits = [
            self._hit(rank, float(corrected[place]), place, alike, direction, calibration)
            for rank, (place, alike) in enumerate(places, start=limits.offset + 1)
        ]
        return Answer(
            query=query.described(parts),
            run=self.run,
            inference=self.inference,
            hits=tuple(hits),
            unknown=tuple(dict.fromkeys(word for one in encoded for word in one.unknown)),
            seconds=time.monotonic() - started,
            notes=tuple(dict.fromkeys(note for one in encoded for note in one.notes)),
            parts=tuple(
                {"kind": one.kind, "value": one.value, "weight": one.weight} for one in parts if len(parts) > 1
            ),
            narrowed=narrowed,
            calibration=calibration.about if calibration else {},
        )

    def picture(self, image_id: int | str) -> Path | None:
        """Where an image of the data set lies, inside its root, as ``sources.read.at`` takes it; None where the file is gone or
        there are only features. Raises as ``by_image_id``."""
        return self._catalogue.path(self._number(image_id))

    def correction(self, direction: str) -> Correction:
        """What the criterion takes off the items of one direction; computed now if nothing has needed it yet."""
        with self._lock:
            if direction not in self._corrections:
                self._corrections[direction] = correction.correction_of(
                    self._params, self.run, self._criterion, self._network, direction
                )
            return self._corrections[direction]

    def calibration(self, direction: str) -> Calibration:
        """What makes probabilities of the corrected scores of one direction; fitted now if nothing has needed it yet."""
        with self._lock:
            if direction not in self._calibrations:
                corrected = self.correction(direction)
                self._calibrations[direction] = correction.calibration_of(
                    self._params, self.run, self._criterion, self._network, corrected, direction
                )
            return self._calibrations[direction]

    def _calibration(self, parts: Sequence[Term], limits: Limits, direction: str) -> Calibration | None:
        """None where no probability is limits."""
        if not limits.probability and limits.least is None:
            return None
        scores.require_native(parts, direction)
        return self.calibration(direction)

    def _encoded(self, part: Term) -> EncodedQuery:
        if part.kind == TEXT:
            return self._network.sentence(part.value)
        if part.kind == IMAGE:
            return self._network.image(self._number(part.value))
        assert part.content is not None
        return self._network.photo(part.content, part.value)

    def _mask(self, parts: Sequence[Term], limits: Limits, direction: str) -> tuple[np.ndarray, dict]:
        """bool (items,), those that may be hits; and what the answer says of it."""
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
        """The places of the hits, those before ``offset`` included, and of the items that are alike to each."""
        count = limits.offset + limits.k
        if limits.group is None:
            places = np.flatnonzero(mask)
            return [(place, _NONE) for place in places[scores.best(corrected[places], count)].tolist()]
        units, least = self._scoring.units(direction), limits.group - _ROUNDING
        return scores.leaders(
            corrected, mask, count, lambda items, others: np.asarray(units[items] @ units[others].T >= least)
        )

    def _hit(
        self, rank: int, score: float, place: int, alike: np.ndarray, direction: str, calibration: Calibration | None
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
            image_id=self._shown("image_id", image),
            caption_id=None if direction == TO_IMAGES else self._shown(key, number),
            text=text,
            file=self._catalogue.file(image),
            alike=tuple(self._shown(key, one) for one in item_ids[alike[:SHOWN]].tolist()),
            alike_count=len(alike),
            probability=float(calibration(np.array([score]))[0]) if calibration else None,
        )

    def _number(self, image_id: int | str) -> int:
        """What an image is inside the pipeline."""
        if self.named and self._names is not None:
            number = self._names.number("image_id", str(image_id))
            if number is None:
                raise InputError(f"data set '{self._catalogue.dataset}' has no image {text.shown_id(str(image_id))}")
            return number
        try:
            return int(image_id)
        except ValueError as error:
            raise UsageError(f"image_id must be a whole number, got {text.shown_id(str(image_id))}") from error

    def _shown(self, key: str, number: int) -> int | str:
        """As the data set has it."""
        return number if self._names is None else self._names.shown(key, number)
