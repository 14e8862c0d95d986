"""The models of a run or an ensemble beside their embeddings: encode and compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts import embeddings, features, identity, model_files
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.project import paths
from vse_pipe.project.params.schema import BM25
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.codes import cut_short
from vse_pipe.ranking.fragments import MeanScore, Several, Sides, Words
from vse_pipe.ranking.scores import Similarity
from vse_pipe.search.gallery import Gallery, Ids
from vse_pipe.train.sentences import Wording
from vse_pipe.train.trained import Trained, parts_of

_NONE = Wording()


@dataclass(frozen=True)
class EncodedQuery:
    """side: a row in the model's space; wording: what the model does not read of a sentence."""

    side: Sides
    wording: Wording = _NONE


class Network:
    """galleries: the embeddings of each network of a run or of all runs of an ensemble; weights: of
    each, None for the plain mean. Models and vectors are loaded when they are first needed. Several
    threads may use it at once.

    Raises InputError unless all embedded the same images and captions, IntegrityError if embeddings
    come from other weights than the present ones."""

    def __init__(
        self, params: Params, galleries: Sequence[Gallery], weights: tuple[float, ...] | None, device: torch.device
    ) -> None:
        self.galleries, self.weights, self.device = list(galleries), weights, device
        self._params, self._lock = params, RLock()
        self._sides: dict[str, Sides] = {}
        self._splits = {galleries[0].split: self}
        self.ids: Ids = galleries[0].ids
        for gallery in galleries:
            for key, ids in vars(gallery.ids).items():
                if not np.array_equal(ids, getattr(self.ids, key)):
                    raise InputError(
                        f"{gallery.folder}: other {key.replace('_', ' ')} than {galleries[0].folder}; embed the runs again"
                    )
        self._require_models()

    def on_split(self, split: str) -> "Network":
        """The same runs with the embeddings of another split."""
        with self._lock:
            if split not in self._splits:
                galleries = [gallery.on_split(split) for gallery in self.galleries]
                self._splits[split] = Network(self._params, galleries, self.weights, self.device)
            return self._splits[split]

    @property
    def made(self) -> identity.Inputs:
        """The digests of all vectors that scores depend on."""
        return {folder: parts for gallery in self.galleries for folder, parts in gallery.made.items()}

    def images(self) -> Sides:
        return self._on_device(embeddings.IMAGES, Gallery.images)

    def captions(self) -> Sides:
        return self._on_device(embeddings.CAPTIONS, Gallery.captions)

    def similarity(self) -> Similarity:
        similarities = [gallery.similarity(self.device) for gallery in self.galleries]
        return similarities[0] if len(similarities) == 1 else MeanScore(similarities)

    def image(self, image_id: int) -> EncodedQuery:
        """An image of the data set, of any split. Raises InputError if it is not embedded."""
        network = self.on_split(self.galleries[0].split_of(image_id))
        place = int((network.ids.image_ids == image_id).argmax())
        return EncodedQuery(network.images()[place : place + 1])

    def sentence(self, text: str) -> EncodedQuery:
        """Raises as ``Fitted.wording``, and InputError if the vector is not finite."""
        with self._lock:
            wordings = [trained.texts.wording(text) for trained in self._models]
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
        images = self.images()
        if len(self.galleries) > 1 or not isinstance(images, Tensor) or images.ndim != 3:
            return []
        from vse_pipe.report.matches import best_regions  # other models need no page

        with self._lock, torch.inference_mode():
            trained, words = self._models[0], self.sentence(text).side
            assert isinstance(words, Words)
            places = [int((self.ids.image_ids == number).argmax()) for number in image_ids]
            member = trained.networks[0].model.sim.member
            weights = SIMILARITIES.load(member.name).regions(images[places], words.vectors, member.params).cpu()
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
        """The features that the gallery was embedded from; None where they are gone."""
        run = self.galleries[0].run
        transfer = self._params.transfers.get(run)
        name = self._models[0].config["features"] if transfer is None else transfer.features
        folder = paths.extracted(self._params.dataset(run), str(name))
        # The boxes have their own checks; the digest of all features would be computed again for
        # them.
        return features.read(folder, verify=False) if (folder / features.META).is_file() else None

    @cached_property
    def _models(self) -> list[Trained]:
        """The model of each run."""
        self._require_models()  # a run may have been trained again
        runs = [self._params.trained(run) for run, _ in groupby(gallery.run for gallery in self.galleries)]
        for run in runs:
            if not (path := paths.trained(run) / model_files.MODEL).is_file():
                raise MissingResource(f"{path} does not exist; make it with `vse-pipe train --run {run}`")
        return [Trained.open(paths.trained(run), self.device) for run in runs]

    def _require_models(self) -> None:
        for gallery in self.galleries:
            trained = paths.trained(self._params.trained(gallery.run))
            identity.require_current(paths.embedded(gallery.run), (), [trained])

    def _side(self, sides: Sequence[Sides]) -> Sides:
        """One side of all networks, as wide as the embeddings, which ``embed.dim`` may have cut
        short. Raises InputError for values that are not finite."""
        parts: list[Any] = [part.to(self.device) for side in sides for part in parts_of(side)]
        for place, (part, gallery) in enumerate(zip(parts, self.galleries, strict=True)):
            if not getattr(part, "vectors", part).isfinite().all():
                raise InputError("the model gives no finite vector for this query")
            if embeddings.CUT_FROM in gallery.about:
                images = parts_of(self.images())[place]
                parts[place] = cut_short(part, images.shape[1])
        return self._joined(parts)

    def _joined(self, parts: Sequence[Any]) -> Any:
        return parts[0] if len(parts) == 1 else Several(tuple(parts), self.weights)

    def _on_device(self, name: str, read: Callable[[Gallery], Tensor | Words]) -> Sides:
        with self._lock:
            if name not in self._sides:
                self._sides[name] = self._joined([read(gallery).to(self.device) for gallery in self.galleries])
            return self._sides[name]


def open_run(params: Params, run: str, split: str, device: torch.device) -> Network:
    """The networks of a run or an ensemble. Raises UsageError for scores that depend on others."""
    if run not in params.ensembles:
        return Network(params, _galleries(params, run, split), None, device)
    node = params.ensembles[run]
    if node.rescore or node.rule != "mean" or BM25 in node.runs:
        kind = "rescores" if node.rescore else "ranks by words" if BM25 in node.runs else f"joins by {node.rule}"
        raise UsageError(f"ensemble '{run}' {kind}, which needs an evaluation; search '{node.members[0]}' instead")
    members = [_galleries(params, name, split) for name in node.members]
    weights = tuple(share / len(group) for share, group in zip(node.shares, members, strict=True) for _ in group)
    return Network(params, [gallery for group in members for gallery in group], weights, device)


def _galleries(params: Params, run: str, split: str) -> list[Gallery]:
    """The embeddings of the network or both networks of a run."""
    folder, prepared = paths.embedded(run), paths.prepared(params.dataset(run))
    first = Gallery.open(folder, run, split, prepared)
    digest = first.about.get("peer_sha256")
    if digest is None:
        return [first]
    peer = Gallery.open(folder / embeddings.PEER, run, split, prepared)
    if peer.about.get("model_sha256") != digest:
        raise InputError(
            f"{peer.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return [first, peer]
