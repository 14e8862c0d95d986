"""One trained network and what it made of a data set; several of them, asked as one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock

import torch
from torch import Tensor, nn

from pipeline import paths
from pipeline.artifacts import embeddings, model_files
from pipeline.artifacts._files import read_json
from pipeline.errors import InputError, IntegrityError, MissingResource
from pipeline.evaluate.fragments import MeanScore, Several, Sides
from pipeline.evaluate.scores import Similarity
from pipeline.params.typed import Params
from pipeline.registry import SIMILARITIES, TEXT_ENCODERS
from pipeline.search.gallery import Gallery, Ids
from pipeline.search.sentences import Reader
from pipeline.train.model import restore
from pipeline.train.words import Words

# What a search reads of config.json.
_NEEDED = ("dataset", "features", "texts", "texts_sha256", "text", "text_inputs", "embed_size", "similarity")


@dataclass(frozen=True)
class Asked:
    """A query in the space of the network: one row. unknown, notes: as in ``Read``."""

    side: Sides
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Network:
    """gallery: its embeddings; trained: data/train/<run>/ or the peer in it. Thread-safe: what is loaded is loaded once."""

    def __init__(self, params: Params, gallery: Gallery, trained: Path, device: torch.device) -> None:
        self.gallery, self.device = gallery, device
        self._params, self._trained = params, trained
        self._lock = RLock()
        self._sides: dict[str, Sides] = {}
        self._others = {gallery.split: self}
        self._eye = None
        self._check_digest()

    @property
    def ids(self) -> Ids:
        return self.gallery.ids

    def of(self, split: str) -> "Network":
        """The same network with the embeddings of another split."""
        with self._lock:
            if split not in self._others:
                other = Network(self._params, self.gallery.of(split), self._trained, self.device)
                self._others[split] = other
            return self._others[split]

    @property
    def galleries(self) -> list[Gallery]:
        return [self.gallery]

    def images(self) -> Sides:
        return self._held("images", self.gallery.images)

    def captions(self) -> Sides:
        return self._held("captions", self.gallery.captions)

    def image(self, image_id: int) -> Asked:
        """An image of the data set, of whatever split. Raises InputError where the run has embedded none of that id."""
        where = self.of(self.gallery.split_of(image_id))
        place = int((where.ids.image_ids == image_id).argmax())
        return Asked(where.images()[place : place + 1])

    def _held(self, name: str, read: Callable[[], Sides]) -> Sides:
        with self._lock:
            if name not in self._sides:
                self._sides[name] = read().to(self.device)
            return self._sides[name]

    def similarity(self) -> Similarity:
        return self.gallery.similarity(self.device)

    def sentence(self, text: str) -> Asked:
        """Raises as ``Reader.read``; InputError also where the encoder gives no finite vector."""
        with self._lock:
            reader, encoder = self._reader, self._text_encoder
        read = reader.read(text)
        inputs = read.inputs[0].to(self.device), *read.inputs[1:]
        with torch.inference_mode():
            if _compares_fragments(self._files.config):
                side = Words.of(encoder.words(*inputs), inputs[1]).float()
            else:
                side = encoder(*inputs).float()
        return Asked(_finite(side), read.unknown, read.notes)

    def photo(self, content: bytes, name: str) -> Asked:
        """Raises as ``Eye.see``."""
        from pipeline.search.photos import Eye  # Pillow and the backbones, which a sentence does not need

        with self._lock:
            if self._eye is None:
                self._eye = Eye.open(self._params, self.gallery.run, self._trained, self._files, self.device)
        return Asked(_finite(self._eye.see(content, name)))

    @cached_property
    def _files(self) -> model_files.ModelFiles:
        path = self._trained / model_files.MODEL
        if not path.is_file():
            raise MissingResource(
                f"{path} does not exist; make it with `vse-pipe train --run {self.gallery.run}`"
            )
        files = model_files.read(self._trained, self.gallery.run)
        absent = [key for key in _NEEDED if key not in files.config]
        if absent:
            raise IntegrityError(
                f"{self._trained / model_files.CONFIG}: has no '{absent[0]}': an earlier version of the pipeline trained this "
                f"run; run `vse-pipe train --run {self.gallery.run}` again, then embed"
            )
        return files

    @cached_property
    def _reader(self) -> Reader:
        return Reader.open(self.gallery.run, self._files)

    @cached_property
    def _text_encoder(self) -> nn.Module:
        """The text side alone: the image side may be a network that takes seconds to build."""
        config, weights = self._files.config, self._files.weights
        member = restore(TEXT_ENCODERS, config["text"])
        module = TEXT_ENCODERS.load(member.name)
        side = module.build(member.params, config["text_inputs"], config["embed_size"], torch.Generator())
        own = {name.removeprefix("txt."): value for name, value in weights.items() if name.startswith("txt.")}
        try:
            side.load_state_dict(own)
        except RuntimeError as error:
            raise IntegrityError(
                f"{self._trained / model_files.CONFIG}: does not fit {model_files.MODEL}; train the run again ({error})"
            ) from error
        return side.eval().to(self.device)

    def _check_digest(self) -> None:
        """Raises IntegrityError where the embeddings come from other weights than the run now has."""
        path = self._trained / model_files.CONFIG
        if not path.is_file():
            return
        trained = read_json(path).get("sha256", {}).get(model_files.MODEL)
        if trained != self.gallery.about.get("model_sha256"):
            run = self.gallery.run
            raise IntegrityError(
                f"{self.gallery.folder}: made by another model than {self._trained} now holds; run `vse-pipe embed --run {run}`"
            )


class Together:
    """Networks whose scores are averaged: an ensemble, or the two networks of a run. Raises InputError unless they
    embedded the same images and captions."""

    def __init__(self, parts: list["Network | Together"]) -> None:
        self.parts = parts
        self.ids = parts[0].ids
        for part in parts[1:]:
            for key, values in vars(part.ids).items():
                ours = getattr(self.ids, key)
                if len(ours) != len(values) or (ours != values).any():
                    raise InputError(
                        f"{part.galleries[0].folder}: other {key.replace('_', ' ')} than {self.galleries[0].folder}; "
                        "embed the runs again"
                    )

    def of(self, split: str) -> "Together":
        return Together([part.of(split) for part in self.parts])

    @property
    def galleries(self) -> list[Gallery]:
        return [gallery for part in self.parts for gallery in part.galleries]

    def images(self) -> Sides:
        return Several(tuple(part.images() for part in self.parts))

    def captions(self) -> Sides:
        return Several(tuple(part.captions() for part in self.parts))

    def similarity(self) -> Similarity:
        return MeanScore([part.similarity() for part in self.parts])

    def image(self, image_id: int) -> Asked:
        return _joined([part.image(image_id) for part in self.parts])

    def sentence(self, text: str) -> Asked:
        return _joined([part.sentence(text) for part in self.parts])

    def photo(self, content: bytes, name: str) -> Asked:
        return _joined([part.photo(content, name) for part in self.parts])


def open_run(params: Params, run: str, split: str, device: torch.device) -> Network | Together:
    """A run of one network or two, or an ensemble of runs."""
    if run in params.ensembles:
        node = params.ensembles[run]
        return Together([open_run(params, one, split, device) for one in (node.first, node.second)])
    folder, trained = paths.embedded(run), paths.trained(run)
    first = Network(params, Gallery.open(folder, run, split), trained, device)
    wanted = first.gallery.about.get("peer_sha256")
    if wanted is None:
        return first
    peer = Gallery.open(folder / embeddings.PEER, run, split)
    if peer.about.get("model_sha256") != wanted:
        raise InputError(
            f"{peer.folder}: another network than {embeddings.IMAGES} beside it names; embed the run again"
        )
    return Together([first, Network(params, peer, trained / model_files.PEER, device)])


def _joined(asked: list[Asked]) -> Asked:
    unknown = tuple(dict.fromkeys(word for one in asked for word in one.unknown))
    notes = tuple(dict.fromkeys(note for one in asked for note in one.notes))
    return Asked(Several(tuple(one.side for one in asked)), unknown, notes)


def _compares_fragments(config: dict) -> bool:
    return getattr(SIMILARITIES.load(config["similarity"]["name"]), "fragments", False)


def _finite(side: Tensor | Words) -> Tensor | Words:
    vectors = side.vectors if isinstance(side, Words) else side
    if not vectors.isfinite().all():
        raise InputError("the model gives no finite vector for this query")
    return side
