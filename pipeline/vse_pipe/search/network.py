"""The embeddings of a run or an ensemble that are searched, and the models beside them."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts import embeddings, features, identity, images, model_files
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.evaluate.ensemble import Ensemble, run_embeddings
from vse_pipe.extract.fitted import Fitted
from vse_pipe.project import paths
from vse_pipe.project.params.schema import BM25
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.codes import cut_short
from vse_pipe.ranking.fragments import Several, Sides, Words, pooled
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.split import Split
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.train.trained import Trained, parts_of

ALL = "all"
SPLITS = ("test", "val", "train", ALL)


@dataclass(frozen=True)
class Wording:
    """What a model does not read of a sentence. unknown: words; notes: on words left out."""

    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


_NONE = Wording()


@dataclass(frozen=True)
class EncodedQuery:
    """side: a row in the model's space; wording: what the model does not read of a sentence."""

    side: Sides
    wording: Wording = _NONE


class Network:
    """The runs of an entry as one model. items: images and captions of the split. Models are loaded
    when they are first needed. Several threads may use it at once.

    Raises InputError for an empty split, and where the runs embedded other images or captions,
    IntegrityError for embeddings of another model or of other data than the present ones."""

    def __init__(
        self, params: Params, runs: Sequence[str], weights: Sequence[float], split: str, device: torch.device
    ) -> None:
        self.runs, self.device = list(runs), device
        self._params, self._lock = params, RLock()
        self.parts, shares = list[Vectors](), list[float]()
        for run, weight in zip(runs, weights, strict=True):
            embedded = run_embeddings(params, run)
            parts: Any = embedded.parts if isinstance(embedded, Ensemble) else (embedded,)
            self.parts += parts
            shares += [weight / len(parts)] * len(parts)
        self._shares = tuple(shares) if len(runs) > 1 else None
        self._splits: dict[str, Network] = {}
        self._show(split)

    def _show(self, split: str) -> None:
        parts = [_all_splits(part) if split == ALL else part for part in self.parts]
        for part in parts:
            if not part.has(split):
                advice = f"if the data set has it, name '{split}' in embed.splits and embed the run again"
                raise InputError(f"{part.folder}: nothing of split '{split}'; {advice}")
        self.split = split
        self.vectors = parts[0] if len(parts) == 1 else Ensemble(tuple(parts), self._shares)
        self.items: Split = self.vectors.split(split, self.device, paired=False)
        self._splits[split] = self

    def on_split(self, split: str) -> "Network":
        """The same runs with the embeddings of another split."""
        with self._lock:
            if split not in self._splits:
                network = copy.copy(self)
                network._show(split)
            return self._splits[split]

    @cached_property
    def similarity(self) -> Similarity:
        return self.vectors.similarity(self.device)

    @property
    def is_joint(self) -> bool:
        """Whether images and captions lie in one space of unit vectors, and are all comparable."""
        return all(part.compared_by == "cosine" and isinstance(part.images, Side) for part in self.parts)

    @property
    def left_out(self) -> dict[str, int]:
        """Numbers of unreadable ``images`` and ``captions`` of the split; empty without any."""
        splits = SPLITS[:-1] if self.split == ALL else (self.split,)
        counts = [count for split in splits if (count := self.parts[0].about(split).get("left_out"))]
        return {key: sum(count[key] for count in counts) for key in counts[0]} if counts else {}

    def image(self, image_id: int) -> EncodedQuery:
        """An image of the data set, of any split. Raises InputError if it is not embedded."""
        side = self.parts[0].images
        places = np.flatnonzero(side.ids == image_id)
        if not len(places):
            raise InputError(f"{self.parts[0].folder}: run '{self.runs[0]}' has embedded no image_id {image_id}")
        items = self.on_split(str(side.splits[places[0]])).items
        place = int((items.image_ids == image_id).argmax())
        return EncodedQuery(items.images[place : place + 1])

    def sentence(self, text: str) -> EncodedQuery:
        """Raises as ``wording_of``, and InputError if the vector is not finite."""
        with self._lock:
            wordings = [wording_of(trained.texts, text) for trained in self._models]
            side = self._side([trained.captions([text]) for trained in self._models])
        unknown = dict.fromkeys(word for wording in wordings for word in wording.unknown)
        notes = dict.fromkeys(note for wording in wordings for note in wording.notes)
        return EncodedQuery(side, Wording(tuple(unknown), tuple(notes)))

    def photo(self, content: bytes, name: str) -> EncodedQuery:
        """content: of its file; name: for messages. Raises as ``Trained.images``."""
        with self._lock:
            return EncodedQuery(self._side([trained.images([content], [name]) for trained in self._models]))

    def regions(self, text: str, image_ids: Sequence[int]) -> list[list[dict]]:
        """Where each word of a sentence matched in each image: ``word``, the number of the
        ``region`` that it has most of, its ``weight`` (as ``regions`` of the similarity) and its
        ``box`` in pixels of the upright image (x1, y1, x2, y2), None for features without boxes or
        that are gone. Empty for several networks, which have attention of their own, and for models
        of one vector an image. Words are numbered where the text features do not name them."""
        items = self.items.images
        if not isinstance(items, Tensor) or items.ndim != 3:
            return []
        from vse_pipe.report.matches import best_regions  # other models need no page

        with self._lock, torch.inference_mode():
            trained, words = self._models[0], self.sentence(text).side
            assert isinstance(words, Words)
            places = [int((self.items.image_ids == number).argmax()) for number in image_ids]
            member = trained.networks[0].model.sim.member
            weights = SIMILARITIES.load(member.name).regions(items[places], words.vectors, member.params).cpu()
        names = [str(place) for place in range(len(words.vectors))]
        if trained.texts.traits.gives == "tokens":
            tokens = trained.texts.transformed([text]).tokens
            assert tokens is not None
            names = [trained.texts.state.words[number] for number in tokens.padded(np.zeros(1, np.int64))[0][0]]
        source = self._features
        boxes = None if source is None or source.boxes is None else source.boxes[source.rows_of(np.array(image_ids))]
        return [best_regions(names, part, None if boxes is None else boxes[row]) for row, part in enumerate(weights)]

    @cached_property
    def _features(self) -> features.Features | None:
        """The features that the first run was embedded from; None where they are gone."""
        run = self.runs[0]
        transfer = self._params.transfers.get(run)
        name = self._models[0].config["features"] if transfer is None else transfer.features
        folder = paths.extracted(self._params.dataset(run), str(name))
        # The boxes have their own checks; the digest of all features would be computed again for
        # them.
        return features.read(folder, verify=False) if (folder / features.META).is_file() else None

    @cached_property
    def _models(self) -> list[Trained]:
        """The model of each run."""
        models = []
        for run in self.runs:
            trained = self._params.trained(run)
            folder = paths.trained(trained)
            if not (folder / model_files.MODEL).is_file():
                command = f"`vse-pipe train --run {trained}`"
                raise MissingResource(f"{folder / model_files.MODEL} does not exist; make it with {command}")
            # A run may have been trained again.
            identity.require_current(paths.embedded(run), (), [folder])
            models.append(Trained.open(folder, self.device))
        return models

    def _side(self, sides: Sequence[Sides]) -> Sides:
        """One side of all networks, as wide as the embeddings, which ``embed.dim`` may have cut
        short. Raises InputError for values that are not finite."""
        parts: list[Any] = [part.to(self.device) for side in sides for part in parts_of(side)]
        for place, (part, vectors) in enumerate(zip(parts, self.parts, strict=True)):
            if not getattr(part, "vectors", part).isfinite().all():
                raise InputError("the model gives no finite vector for this query")
            if isinstance(vectors.images, Side) and embeddings.CUT_FROM in vectors.images.about:
                parts[place] = cut_short(part, vectors.images.vectors.shape[1])
        if isinstance(self.vectors, Vectors):
            return parts[0]
        side = Several(tuple(parts), self._shares)
        return pooled(side) if self.vectors.joint else side


def wording_of(texts: Fitted, sentence: str) -> Wording:
    """What the texts' method does not read. Raises InputError for a sentence that is empty or
    without a known word."""
    if not sentence.strip():
        raise InputError("the sentence is empty; write what to look for")
    vocabulary = set(texts.state.words)
    if texts.traits.terms and vocabulary.isdisjoint(texts.method.terms(sentence, texts.options)):
        raise InputError(f"no word of the sentence is in the vocabulary of texts '{texts.name}'")
    unknown = tuple(word for word in dict.fromkeys(texts.words(sentence)) if word not in vocabulary)
    if texts.traits.gives != "tokens":
        return Wording(unknown)
    tokens, cut = texts.method.transform([sentence], texts.state, texts.options)
    unit = "words" if texts.traits.terms else "pieces of words"
    # Without <start> and <end>.
    return Wording(unknown, (f"only the first {int(tokens.lengths[0]) - 2} {unit} are read",) if cut else ())


def _all_splits(vectors: Vectors) -> Vectors:
    """All splits as the split ``ALL``."""
    vectors.require_current(images.SPLITS)
    images_side, captions_side = (
        replace(side, splits=np.full(len(side.ids), ALL)) for side in (vectors.images, vectors.captions)
    )
    return replace(vectors, images=images_side, captions=captions_side, origin=None)


def open_run(params: Params, run: str, split: str, device: torch.device) -> Network:
    """The networks of a run or an ensemble. Raises UsageError for scores that depend on others."""
    if run not in params.ensembles:
        return Network(params, [run], [1.0], split, device)
    node = params.ensembles[run]
    if node.rescore or node.rule != "mean" or BM25 in node.runs:
        kind = "rescores" if node.rescore else "ranks by words" if BM25 in node.runs else f"joins by {node.rule}"
        raise UsageError(f"ensemble '{run}' {kind}, which needs an evaluation; search '{node.members[0]}' instead")
    return Network(params, node.members, node.shares, split, device)
