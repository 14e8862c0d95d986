"""One trained network and what it made of a data set."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pipeline.artifacts import model_files
from pipeline.core.errors import InputError, IntegrityError, MissingResource
from pipeline.core.files import read_json
from pipeline.project.params.typed import Params
from pipeline.project.registry import SIMILARITIES, TEXT_ENCODERS
from pipeline.ranking.engine.fragments import Sides
from pipeline.ranking.engine.scores import Similarity
from pipeline.ranking.engine.words import Words
from pipeline.tools.search.gallery import Gallery, Ids
from pipeline.tools.search.sentences import Reader
from pipeline.train.engine.model import restore

if TYPE_CHECKING:
    from pipeline.pictures.images import Item
    from pipeline.tools.search.photos import Eye

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
        self._eye: Eye | None = None
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

    def _held(self, name: str, read: Callable[[], Tensor | Words]) -> Sides:
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
        return Asked(_finite(self._opened_eye().see(content, name)))

    def boxes(self, folder: Path, items: "list[Item]") -> Sides:
        """A row for each of the pictures, or boxes in them, below ``folder``. Raises as ``images.load``."""
        return _finite(self._opened_eye().of(folder, items))

    def _opened_eye(self) -> "Eye":
        from pipeline.tools.search.photos import (
            Eye,  # Pillow and the backbones, which a sentence does not need
        )

        with self._lock:
            if self._eye is None:
                self._eye = Eye.open(self._params, self._run, self._trained, self._files, self.device)
            return self._eye

    @property
    def _run(self) -> str:
        """Whose model it is."""
        return self._params.trained(self.gallery.run)

    @cached_property
    def _files(self) -> model_files.ModelFiles:
        path = self._trained / model_files.MODEL
        if not path.is_file():
            raise MissingResource(f"{path} does not exist; make it with `vse-pipe train --run {self._run}`")
        files = model_files.read(self._trained, self._run)
        absent = [key for key in _NEEDED if key not in files.config]
        if absent:
            raise IntegrityError(
                f"{self._trained / model_files.CONFIG}: has no '{absent[0]}': an earlier version of the pipeline trained this "
                f"run; run `vse-pipe train --run {self._run}` again, then embed"
            )
        return files

    @cached_property
    def _reader(self) -> Reader:
        return Reader.open(self._run, self._files)

    @cached_property
    def _text_encoder(self) -> Any:
        """The text side alone, a member's module: the image side may be a network that takes seconds to build."""
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


def _compares_fragments(config: dict) -> bool:
    return SIMILARITIES.traits(config["similarity"]["name"]).fragments


def _finite(side: Tensor | Words) -> Tensor | Words:
    vectors = side.vectors if isinstance(side, Words) else side
    if not vectors.isfinite().all():
        raise InputError("the model gives no finite vector for this query")
    return side
