"""The networks of a run or an ensemble: they encode sentences and photos, and compare them with the embeddings."""

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts import embeddings, features, joins, model_files
from vse_pipe.core import devices
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.embed.fitted import Fitted, fitted, identity
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.job import Backbone
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths
from vse_pipe.project.params.schema import BM25
from vse_pipe.project.params.typed import FeatureSet, Params
from vse_pipe.project.registry import BACKBONES, SIMILARITIES
from vse_pipe.ranking.codes import cut_short
from vse_pipe.ranking.fragments import MeanScore, Several, Sides, Words
from vse_pipe.ranking.scores import Similarity
from vse_pipe.report.matches import best_regions
from vse_pipe.search.catalogue import Gallery, Ids, States
from vse_pipe.search.query import shortened
from vse_pipe.train import pictures as networks
from vse_pipe.train import restore
from vse_pipe.train.model import DualEncoder

# Backbones that read features computed elsewhere; there is no network for a photo.
NO_NETWORK = ("precomp", "bottom_up")
# Boxes in a batch.
_BATCH = 16
# Maximum characters of a sentence, and unknown words in a message.
_LONGEST, _LISTED = 100_000, 10


@dataclass(frozen=True)
class TextInputs:
    """arrays: inputs of the text encoder for one caption; unknown: words that the vocabulary lacks; notes: about
    omitted words."""

    arrays: tuple[np.ndarray, ...]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def text_inputs(texts: Fitted, sentence: str) -> TextInputs:
    """Inputs for the sentence. Raises InputError for an empty or too long sentence, and one without a known word.

    texts: the text features of the run.
    """
    if not sentence.strip():
        raise InputError("the sentence is empty; write what to look for")
    if len(sentence) > _LONGEST:
        raise InputError(f"a sentence of {len(sentence)} characters; the longest that is read has {_LONGEST}")
    method, options, gives = texts.method, texts.options, texts.traits.gives
    unknown: tuple[str, ...] = ()
    if texts.traits.terms:
        words = Counter(method.terms(sentence, options))
        unknown = tuple(texts.unknown(words))
        if not words.keys() & set(texts.state.words):
            listed = f": {', '.join(map(shortened, unknown[:_LISTED]))}" if unknown else ""
            raise InputError(f"no word of the sentence is in the vocabulary of texts '{texts.name}'{listed}")
    transformed = method.transform([sentence], texts.state, options)
    if gives == "vectors":
        return TextInputs((np.asarray(transformed, np.float32),), unknown)
    if gives == "fragments":
        rows, lengths = transformed
        return TextInputs((rows[None], lengths), unknown)
    tokens, cut = transformed
    unit = "words" if texts.traits.terms else "pieces of words"  # without <start> and <end>
    notes = (f"only the first {int(tokens.lengths[0]) - 2} {unit} are read",) if cut else ()
    return TextInputs(tokens.padded(np.zeros(1, np.int64)), unknown, notes)


@dataclass(frozen=True)
class PhotoEncoder:
    """model: the trained network; config: of its run; backbone, forward: network of its features, None if the image
    encoder reads pixels itself; computing: precision of that network."""

    model: DualEncoder
    config: dict
    device: torch.device
    backbone: Backbone | None
    forward: Forward | None
    computing: str

    @classmethod
    def open(cls, params: Params, run: str, model: DualEncoder, config: dict, device: torch.device) -> "PhotoEncoder":
        """model: on ``device``. Raises UsageError if the features were computed elsewhere, MissingResource for missing
        weights, IntegrityError if weights or transform differ from those of the run's features."""
        name = config["features"]
        source = params.features.get(name)
        if source is None:
            raise UsageError(f"run '{run}' was trained on features.{name}, which params.yaml does not name any more")
        if source.backbone.name in NO_NETWORK:
            raise UsageError(
                f"features.{name} of run '{run}' are '{source.backbone.name}': computed elsewhere, with no network here to "
                "show a photo to; `search image:ID` takes an image of the data set"
            )
        if model.tests_on_pixels:
            return cls(model, config, device, None, None, "float32")
        meta = _meta(source, name, run, config)
        backbone = BACKBONES.load(source.backbone.name).build(source.backbone.params, params.seed)
        must_be_the_same(backbone, meta, name)
        forward = Forward(backbone.module.to(device), source.backbone.params, device)
        return cls(model, config, device, backbone, forward, meta.get("precision", "float32"))

    def photo(self, content: bytes, name: str) -> Tensor:
        """(1, dim) or (1, R, dim). Arguments and errors as for ``photos``."""
        return self.photos([(content, name)])

    def photos(self, pictures: Sequence[tuple[bytes, str]]) -> Tensor:
        """(pictures, dim) or (pictures, R, dim). pictures: content and name, for messages. Raises InputError if a content
        is no readable picture."""
        items = []
        with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
            for place, (content, name) in enumerate(pictures):
                images.decode(content, name)
                (Path(folder) / str(place)).write_bytes(content)
                items.append(Item(place, str(place), hashlib.sha256(content).hexdigest(), name))
            return self.boxes(Path(folder), items)

    def boxes(self, folder: Path, items: list[Item]) -> Tensor:
        """A row for each picture, or box of a picture, below ``folder``."""
        starts = range(0, len(items), _BATCH)
        return torch.cat([self._embedded(folder, items[start : start + _BATCH]) for start in starts])

    def _embedded(self, folder: Path, items: list[Item]) -> Tensor:
        if self.backbone is None or self.forward is None:
            transform = networks.transform(self.config["backbone"])
            inputs = torch.from_numpy(np.stack([images.pixels(folder, item, transform) for item in items]))
        else:
            rows = [self.backbone.read(folder, item) for item in items]
            has_columns = isinstance(rows[0], tuple)
            arrays = tuple(np.stack(column) for column in zip(*rows, strict=True)) if has_columns else np.stack(rows)
            with devices.inference(self.device, self.computing):
                features = self.forward(arrays).features
            inputs = torch.from_numpy(np.asarray(features, np.float32))
        with torch.inference_mode():
            return self.model.img(inputs.to(self.device)).float()


def _meta(source: FeatureSet, name: str, run: str, config: dict) -> dict:
    path = paths.extracted(source.dataset, name) / features.META
    if not path.is_file():
        raise MissingResource(
            f"{path} does not exist: it says which weights saw the images; make it with `vse-pipe extract --features {name}`"
        )
    meta = read_json(path)
    if meta.get("sha256") != config.get("features_sha256"):
        raise IntegrityError(
            f"run {run} was trained on other features than data/extract now holds; run `vse-pipe train --run {run}` again"
        )
    return meta


def must_be_the_same(backbone: Backbone, meta: dict, name: str) -> None:
    """Raises IntegrityError if weights, transform or another property of the backbone differs from ``meta``. Versions
    of libraries do not count."""
    about = json.loads(json.dumps(backbone.about))
    changed = [key for key, value in about.items() if identity(value) != identity(meta.get(key))]
    if changed:
        raise IntegrityError(
            f"features.{name} was made with other {' and '.join(changed)} than there are now; run `vse-pipe extract --features {name}` again"
        )


@dataclass(frozen=True)
class EncodedQuery:
    """side: one row in the space of the network; unknown, notes: as in ``TextInputs``."""

    side: Sides
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Network:
    """gallery: its embeddings; trained: data/train/<run>/ or the peer in it. Model and vectors are loaded when they are
    first needed. Several threads may use it at once.
    """

    weights = None

    def __init__(self, params: Params, gallery: Gallery, trained: Path, device: torch.device) -> None:
        self.gallery, self.device = gallery, device
        self._params, self._trained, self._run = params, trained, params.trained(gallery.run)
        self._lock = RLock()
        self._sides: dict[str, Sides] = {}
        self._splits = {gallery.split: self}
        self._photo_encoder: PhotoEncoder | None = None
        self._require_model()

    @property
    def ids(self) -> Ids:
        return self.gallery.ids

    @property
    def galleries(self) -> list[Gallery]:
        return [self.gallery]

    def on_split(self, split: str) -> "Network":
        with self._lock:
            if split not in self._splits:
                self._splits[split] = Network(self._params, self.gallery.on_split(split), self._trained, self.device)
            return self._splits[split]

    def images(self) -> Sides:
        return self._on_device(embeddings.IMAGES, self.gallery.images)

    def captions(self) -> Sides:
        return self._on_device(embeddings.CAPTIONS, self.gallery.captions)

    def similarity(self) -> Similarity:
        return self.gallery.similarity(self.device)

    def image(self, image_id: int) -> EncodedQuery:
        """An image of the data set, of any split. Raises InputError if the run has not embedded it."""
        network = self.on_split(self.gallery.split_of(image_id))
        place = int((network.ids.image_ids == image_id).argmax())
        return EncodedQuery(network.images()[place : place + 1])

    def sentence(self, text: str) -> EncodedQuery:
        """Raises as ``text_inputs``, and InputError if the vector is not finite."""
        with self._lock:
            inputs = text_inputs(self._texts, text)
            model, _ = self._loaded
        with torch.inference_mode():
            side = model.captions(tuple(map(torch.from_numpy, inputs.arrays)), self.device).float()
        return EncodedQuery(self._cut(_finite(side)), inputs.unknown, inputs.notes)

    def regions(self, text: str, image_ids: Sequence[int]) -> list[list[dict]]:
        """Where each word of a sentence matched in each image: ``word``, the number of the ``region`` that it has most of,
        its ``weight`` (as ``regions`` of the similarity) and its ``box`` in pixels of the upright image (x1, y1, x2, y2), None
        for features without boxes or that are gone. Empty for models of one vector an image. Words are numbered where the text features
        do not name them."""
        if self.gallery.inner or not isinstance(images := self.images(), Tensor) or images.ndim != 3:
            return []
        with self._lock, torch.inference_mode():
            model, _ = self._loaded
            inputs, words = text_inputs(self._texts, text).arrays, self.sentence(text).side
            assert isinstance(words, Words)
            places = [int((self.ids.image_ids == number).argmax()) for number in image_ids]
            member = model.sim.member
            weights = SIMILARITIES.load(member.name).regions(images[places], words.vectors, member.params).cpu()
        names = [str(place) for place in range(len(words.vectors))]
        if self._texts.traits.gives == "tokens":
            names = [self._texts.state.words[number] for number in inputs[0][0].tolist()]
        source = self._features
        boxes = None if source is None or source.boxes is None else source.boxes[source.rows_of(np.array(image_ids))]
        return [best_regions(names, part, None if boxes is None else boxes[row]) for row, part in enumerate(weights)]

    @cached_property
    def _features(self) -> features.Features | None:
        """The features that the gallery was embedded from, of a transfer its own; None where they are gone."""
        transfer = self._params.transfers.get(self.gallery.run)
        name = self._loaded[1].config["features"] if transfer is None else transfer.features
        folder = paths.extracted(self._params.dataset(self.gallery.run), str(name))
        # The boxes have their own checks; the digest of all features would be computed again for them.
        return features.read(folder, verify=False) if (folder / features.META).is_file() else None

    def photo(self, content: bytes, name: str) -> EncodedQuery:
        """Raises as ``PhotoEncoder.photo``."""
        return EncodedQuery(self._cut(_finite(self._opened_photo_encoder().photo(content, name))))

    def boxes(self, folder: Path, items: list[Item]) -> Sides:
        """A row for each picture, or box of a picture, below ``folder``. Raises as ``images.load``."""
        return self._cut(_finite(self._opened_photo_encoder().boxes(folder, items)))

    def _cut(self, side: Any) -> Any:
        """As wide as the embeddings, which ``embed.dim`` may have cut short."""
        images = self.images()
        if embeddings.CUT_FROM not in self.gallery.about or not isinstance(images, Tensor):
            return side
        return cut_short(side, images.shape[1])

    def _opened_photo_encoder(self) -> PhotoEncoder:
        with self._lock:
            if self._photo_encoder is None:
                model, files = self._loaded
                self._photo_encoder = PhotoEncoder.open(self._params, self._run, model, files.config, self.device)
            return self._photo_encoder

    @cached_property
    def _texts(self) -> Fitted:
        return fitted(self._run, self._loaded[1])

    @cached_property
    def _loaded(self) -> tuple[DualEncoder, model_files.ModelFiles]:
        path = self._trained / model_files.MODEL
        if not path.is_file():
            raise MissingResource(f"{path} does not exist; make it with `vse-pipe train --run {self._run}`")
        self._require_model()  # the run may have been trained again
        model, files = restore.load(self._trained, self._run)
        return model.to(self.device), files

    def _on_device(self, name: str, read: Callable[[], Tensor | Words]) -> Sides:
        with self._lock:
            if name not in self._sides:
                self._sides[name] = read().to(self.device)
            return self._sides[name]

    def _require_model(self) -> None:
        """Raises IntegrityError if the embeddings come from other weights than the present ones."""
        digest = self.gallery.about.get("model_sha256", "")
        joins.require_model(self.gallery.folder, digest, self._trained)


class Together:
    """An ensemble, or the two networks of a run; their scores are averaged. weights: of each network, None for the
    plain mean. Raises InputError unless all embedded the same images and captions."""

    def __init__(self, parts: list["Network | Together"], weights: tuple[float, ...] | None = None) -> None:
        self.parts, self.weights = parts, weights
        self.ids: Ids = parts[0].ids
        self.device: torch.device = parts[0].device
        for part in parts[1:]:
            for key, ids in vars(part.ids).items():
                first = getattr(self.ids, key)
                if len(first) != len(ids) or (first != ids).any():
                    raise InputError(
                        f"{part.galleries[0].folder}: other {key.replace('_', ' ')} than {self.galleries[0].folder}; embed the runs again"
                    )

    def on_split(self, split: str) -> "Together":
        return Together([part.on_split(split) for part in self.parts], self.weights)

    @property
    def galleries(self) -> list[Gallery]:
        return [gallery for part in self.parts for gallery in part.galleries]

    def images(self) -> Several:
        return Several(tuple(part.images() for part in self.parts), self.weights)

    def captions(self) -> Several:
        return Several(tuple(part.captions() for part in self.parts), self.weights)

    def similarity(self) -> Similarity:
        return MeanScore([part.similarity() for part in self.parts])

    def image(self, image_id: int) -> EncodedQuery:
        return self._joined([part.image(image_id) for part in self.parts])

    def sentence(self, text: str) -> EncodedQuery:
        return self._joined([part.sentence(text) for part in self.parts])

    def regions(self, text: str, image_ids: Sequence[int]) -> list[list[dict]]:
        """None: each network has attention of its own."""
        return []

    def photo(self, content: bytes, name: str) -> EncodedQuery:
        return self._joined([part.photo(content, name) for part in self.parts])

    def _joined(self, queries: list[EncodedQuery]) -> EncodedQuery:
        unknown = tuple(dict.fromkeys(word for query in queries for word in query.unknown))
        notes = tuple(dict.fromkeys(note for query in queries for note in query.notes))
        return EncodedQuery(Several(tuple(query.side for query in queries), self.weights), unknown, notes)


Networks = Network | Together


def open_run(params: Params, run: str, split: str, device: torch.device) -> Networks:
    """The network or networks of a run or an ensemble."""
    if run in params.ensembles:
        weights = _weights(params, run)
        return Together([open_run(params, name, split, device) for name in params.ensembles[run].members], weights)
    folder, trained = paths.embedded(run), paths.trained(params.trained(run))
    prepared = paths.prepared(params.dataset(run))
    gallery = Gallery.open(folder, run, split, prepared)
    first = Network(params, gallery, trained, device)
    digest = gallery.about.get("peer_sha256")
    if digest is None:
        return first
    peer = Gallery.open(folder / embeddings.PEER, run, split, prepared)
    if peer.about.get("model_sha256") != digest:
        raise InputError(
            f"{peer.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Together([first, Network(params, peer, trained / model_files.PEER, device)])


def files_of(network: Networks) -> States:
    return {path: state for gallery in network.galleries for path, state in gallery.files.items()}


def _weights(params: Params, run: str) -> tuple[float, ...]:
    """Weights of an ensemble's networks. Raises UsageError for one with scores that depend on other items."""
    node = params.ensembles[run]
    if node.rescore or node.rule != "mean" or BM25 in node.runs:
        kind = "rescores" if node.rescore else "ranks by words" if BM25 in node.runs else f"joins by {node.rule}"
        raise UsageError(f"ensemble '{run}' {kind}, which needs an evaluation; search '{node.members[0]}' instead")
    return node.shares


def _finite(side: Any) -> Any:
    """``side``, vectors or words. Raises InputError for values that are not finite."""
    if not getattr(side, "vectors", side).isfinite().all():
        raise InputError("the model gives no finite vector for this query")
    return side
