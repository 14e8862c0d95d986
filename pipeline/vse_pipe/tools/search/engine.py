"""A run's embeddings, opened once and asked many times."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from vse_pipe.artifacts import names
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import text_ids
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.unknown import unknown
from vse_pipe.project.params.typed import Params
from vse_pipe.project.repetitions import one_model
from vse_pipe.tools.search import combine, query, together
from vse_pipe.tools.search.answer import SHOWN, Answer, Hit
from vse_pipe.tools.search.catalogue import Catalogue
from vse_pipe.tools.search.correction import Correction, Rescoring, correction_of, criterion_of
from vse_pipe.tools.search.gallery import SPLITS
from vse_pipe.tools.search.narrow import Wanted, best, leaders
from vse_pipe.tools.search.network import Asked, Network
from vse_pipe.tools.search.probability import Calibration, calibration_of
from vse_pipe.tools.search.query import IMAGE, PHOTO, TEXT, TO_CAPTIONS, TO_IMAGES, Term
from vse_pipe.tools.search.scoring import Scoring
from vse_pipe.tools.search.together import Together

_TEN = Wanted()
_NONE = np.empty(0, np.int64)
# What a cosine of equal vectors may lack of 1.
_ROUNDING = 1e-6


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
    _criterion: Rescoring
    _network: Network | Together
    _opens: Callable[[str, str], Network | Together]
    _catalogue: Catalogue
    _lock: RLock
    _scoring: Scoring
    _corrections: dict[str, Correction]
    _calibrations: dict[str, Calibration]
    _units: dict[str, Any]

    @classmethod
    def open(
        cls, params: Params, run: str, inference: str = "nns", split: str = "test", device: str = "auto"
    ) -> "Engine":
        """Raises UsageError for an unknown run, criterion, split or device and for a criterion that needs all queries at
        once; MissingResource naming the command that makes what is not there; IntegrityError for embeddings of another
        model, or of other images or captions, than there are now."""
        _check_known("run", one_model(params, run), params.evaluated())
        _check_known("split", split, SPLITS)
        found = cls()
        found.run, found.inference, found.split = run, inference, split
        found._params, found._criterion = params, criterion_of(params, inference)
        computing = together.computing(device)
        found._opens = lambda run, split: together.open_run(params, run, split, **computing)
        found._network = found._opens(run, split)
        origins = [gallery.origin for gallery in found._network.galleries]
        found._catalogue = Catalogue.read(params.dataset(run), *origins)
        ids = found._network.ids
        found.counts = {"images": len(ids.image_ids), "captions": len(ids.caption_ids)}
        found.left_out = found._network.galleries[0].left_out
        found._names = names.read(found._network.galleries[0].folder)
        found.named = found._names is not None and found._names.has("image_id")
        found._lock, found._scoring = RLock(), Scoring(found._network)
        found._corrections, found._calibrations, found._units = {}, {}, {}
        return found

    def by_text(self, text: str, k: int = 10) -> Answer:
        """The images that a sentence describes best. Raises InputError for a sentence that holds nothing to look for."""
        return self.ask((Term(TEXT, text),), Wanted(k))

    def by_image(self, content: bytes, k: int = 10, name: str = "a photo") -> Answer:
        """The captions that fit a photo best, from the bytes of its file. Raises InputError when it is no picture,
        UsageError where the run's features were computed elsewhere. name: what the answer calls it."""
        return self.ask((Term(PHOTO, name, content=content),), Wanted(k))

    def by_image_id(self, image_id: int | str, k: int = 10) -> Answer:
        """The captions that fit an image of the data set, of whatever split. Raises InputError for an unknown one, UsageError
        for a text where ids are numbers."""
        return self.ask((Term(IMAGE, str(image_id)),), Wanted(k))

    def ask(self, parts: Sequence[Term], wanted: Wanted = _TEN) -> Answer:
        """What fits a query of any parts, see ``combine.scores``; the criterion corrects the scores of the items, by the bank
        of their direction, whatever the query is made of. Images that are asked with are not among the images found.

        Raises as ``Wanted.check``, ``query.direction``, ``where.rows``, ``combine.scores``, ``by_text`` and ``by_image_id``.
        """
        wanted.check()
        direction = query.direction(parts, wanted.to, self.counts["captions"])
        if direction == TO_CAPTIONS and not self.counts["captions"]:
            raise InputError(
                f"data set '{self._catalogue.dataset}' has no captions of split '{self.split}'; find images: --to {query.IMAGES}"
            )
        started = time.monotonic()
        sure = self._sure(parts, wanted, direction)
        kept, narrowed = self._kept(parts, wanted, direction)
        asked = [self._asked(part) for part in parts]
        sides = [one.side for one in asked]
        chosen = self._chosen(sides, parts, kept, wanted, direction)
        hits = tuple(
            self._hit(rank, score, place, alike, direction, sure)
            for rank, (score, place, alike) in enumerate(chosen[wanted.offset :], start=wanted.offset + 1)
        )
        unknown = tuple(dict.fromkeys(word for one in asked for word in one.unknown))
        notes = tuple(dict.fromkeys(note for one in asked for note in one.notes))
        several = [] if len(parts) == 1 else parts
        told = tuple({"kind": one.kind, "value": one.value, "weight": one.weight} for one in several)
        seconds = time.monotonic() - started
        asked_for, known = query.described(parts), sure.about if sure else {}
        return Answer(asked_for, self.run, self.inference, hits, unknown, seconds, notes, told, narrowed, known)

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

    def _asked(self, part: Term) -> Asked:
        if part.kind == TEXT:
            return self._network.sentence(part.value)
        if part.kind == IMAGE:
            return self._network.image(self._number(part.value))
        assert part.content is not None
        return self._network.photo(part.content, part.value)

    @property
    def _joint(self) -> bool:
        return combine.joint(self._network)

    def _kept(self, parts: Sequence[Term], wanted: Wanted, direction: str) -> tuple[np.ndarray | None, dict]:
        """bool (items,), None for all of them; and what the answer says of it."""
        ids = self._network.ids
        owners = ids.image_ids if direction == TO_IMAGES else ids.caption_images
        kept, limits = None, {"group": wanted.group, "min_probability": wanted.least}
        narrowed: dict = {name: value for name, value in limits.items() if value is not None}
        if wanted.where is not None:
            kept = np.isin(owners, self._catalogue.fitting(wanted.where, self._names))
            narrowed |= {"where": wanted.where, "left": int(kept.sum())}
        own = [self._number(part.value) for part in parts if part.kind == IMAGE and direction == TO_IMAGES]
        if own:
            kept = np.isin(owners, own, invert=True) & (True if kept is None else kept)
        return kept, narrowed

    def calibration(self, direction: str) -> Calibration:
        """What makes probabilities of the corrected scores of one direction; fitted now if nothing has needed it yet."""
        with self._lock:
            if direction not in self._calibrations:
                self._calibrations[direction] = calibration_of(
                    self._params,
                    self.run,
                    self._criterion,
                    self._network,
                    self.correction(direction),
                    direction,
                    self._opens,
                )
            return self._calibrations[direction]

    def _sure(self, parts: Sequence[Term], wanted: Wanted, direction: str) -> Calibration | None:
        if not wanted.probability and wanted.least is None:
            return None
        combine.must_be_native(parts, direction)
        return self.calibration(direction)

    def _chosen(
        self, sides: list, parts: Sequence[Term], kept: np.ndarray | None, wanted: Wanted, direction: str
    ) -> list[tuple[float, int, np.ndarray]]:
        """Scores and places of the hits, the better ones before them included, and of what is alike to each."""
        count = wanted.offset + wanted.k
        sure = None if wanted.least is None else self.calibration(direction)
        raw = combine.scores(sides, parts, direction, self._joint, partial(self._scoring, direction))
        scores = self.correction(direction).apply(raw)
        if sure is not None:
            kept = (sure(scores) >= wanted.least) & (True if kept is None else kept)
        if wanted.group is not None:
            among = np.ones(len(scores), bool) if kept is None else kept
            led = leaders(scores, among, count, self._alike(direction, wanted.group))
            return [(float(scores[place]), place, alike) for place, alike in led]
        among = np.arange(len(scores)) if kept is None else np.flatnonzero(kept)
        values, places = best(scores if kept is None else scores[among], count)
        return [(float(value), int(among[place]), _NONE) for value, place in zip(values, places, strict=True)]

    def _alike(self, direction: str, least: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Whether the cosine of the vectors of items (rows) and others (columns) at these places, of fragments that of their means,
        is ``least``, up to rounding."""
        with self._lock:
            if direction not in self._units:
                self._units[direction] = self._scoring.units(direction, self._joint)
        units = self._units[direction]
        return lambda items, others: np.asarray(units[items] @ units[others].T >= least - _ROUNDING)

    def _hit(
        self, rank: int, score: float, place: int, alike: np.ndarray, direction: str, sure: Calibration | None
    ) -> Hit:
        ids = self._network.ids
        key, of_items = ("image_id", ids.image_ids) if direction == TO_IMAGES else ("caption_id", ids.caption_ids)
        number = int(of_items[place])
        if direction == TO_IMAGES:
            image, text = number, self._catalogue.first_caption(number)
        else:
            image, text = int(ids.caption_images[place]), self._catalogue.text(number)
        caption = None if direction == TO_IMAGES else self._shown(key, number)
        same = tuple(self._shown(key, one) for one in of_items[alike[:SHOWN]].tolist())
        probability = None if sure is None else float(sure(np.array([score]))[0])
        shown, file = self._shown("image_id", image), self._catalogue.file(image)
        return Hit(rank, score, shown, caption, text, file, same, len(alike), probability)


def _check_known(kind: str, name: str, known: list[str] | tuple[str, ...]) -> None:
    if name not in known:
        raise UsageError(unknown(kind, name, known))
