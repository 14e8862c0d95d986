"""The embeddings of one network that are searched."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from vse_pipe.artifacts import embeddings, identity, images
from vse_pipe.artifacts.catalogue import numbers
from vse_pipe.artifacts.embeddings import FragmentSide, Side
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.vectors import Vectors

ALL = "all"
SPLITS = ("test", "val", "train", ALL)
_MUST_AGREE = ("run", "model_sha256", "peer_sha256", "similarity", "similarity_params")


@dataclass(frozen=True)
class Ids:
    """Ids in the order of the embedding files; caption_images: image of each caption."""

    image_ids: Int64[np.ndarray, " images"]
    caption_ids: Int64[np.ndarray, " captions"]
    caption_images: Int64[np.ndarray, " captions"]


@dataclass(frozen=True)
class Gallery:
    """folder: data/embed/<run>/ or the peer in it; split: one of ``SPLITS``; about: footer of
    images.parquet; prepared: folder of the data set; made: the digests of the vectors, read before
    anything else."""

    folder: Path
    run: str
    split: str
    about: dict[str, str]
    prepared: Path
    made: identity.Inputs

    @classmethod
    def open(cls, folder: Path, run: str, split: str, prepared: Path) -> "Gallery":
        """Raises MissingResource with the command that makes the files, InputError for files of
        another run and an empty split, IntegrityError for damaged files and for files of other
        images or captions than the prepared ones."""
        made = identity.parts_of(_root(folder))
        image_footer, caption_footer = (footer(folder / name, run) for name in (embeddings.IMAGES, embeddings.CAPTIONS))
        if image_footer.get("run") != run:
            embedded = image_footer.get("run")
            raise InputError(f"{folder}: embeddings of run {embedded!r}, expected {run!r}; embed it again")
        for key in _MUST_AGREE:
            if image_footer.get(key) != caption_footer.get(key):
                raise InputError(f"{folder}: images.parquet and captions.parquet differ in {key}; embed both again")
        return cls(folder, run, split, image_footer, prepared, made).on_split(split)

    def on_split(self, split: str) -> "Gallery":
        """The network's embeddings of another split. Raises InputError for an empty split,
        IntegrityError if the data set now has other images or captions in it."""
        gallery = replace(self, split=split)
        self.require_unchanged()
        gallery.require_current()
        if not len(gallery.ids.image_ids):
            advice = f"name '{split}' in embed.splits and run `vse-pipe embed --run {self.run}`"
            path = self.folder / embeddings.IMAGES
            raise InputError(f"{path}: nothing of split '{split}'; if the data set has it, {advice}")
        return gallery

    def require_current(self) -> None:
        """Raises IntegrityError where the vectors are of other images or captions than there are
        now."""
        splits = images.SPLITS if self.split == ALL else (self.split,)
        identity.require_current(_root(self.folder), splits, [self.prepared])

    @cached_property
    def ids(self) -> Ids:
        _, image_ids = self._rows(embeddings.IMAGES, "image_id")
        _, caption_ids, caption_images = self._rows(embeddings.CAPTIONS, "caption_id", "image_id")
        return Ids(image_ids, caption_ids, caption_images)

    def split_of(self, image_id: int) -> str:
        """The split of an image. Raises InputError if the run has not embedded it."""
        with opened(self.folder / embeddings.IMAGES) as file:
            ids, splits = file.read(["image_id", "split"]).columns
        places = np.flatnonzero(numbers(ids) == image_id)
        if not len(places):
            raise InputError(f"{self.folder / embeddings.IMAGES}: run '{self.run}' has embedded no image_id {image_id}")
        return splits[int(places[0])].as_py()

    def images(self) -> Tensor | Words:
        """Vectors of the images of the split, in the order of ``ids``, on the CPU."""
        return self._side(embeddings.IMAGES)

    def captions(self) -> Tensor | Words:
        return self._side(embeddings.CAPTIONS)

    def require_unchanged(self) -> None:
        """Raises IntegrityError for vectors that are not those whose ids were read."""
        root = _root(self.folder)
        if identity.parts_of(root) != self.made:
            raise IntegrityError(f"{root}: embedded again while it was read; start again")

    @property
    def inner(self) -> bool:
        """Is the score the inner product of one vector of the image and one of the caption?"""
        return self.about.get("similarity") == "cosine" and not self.holds_fragments

    @cached_property
    def holds_fragments(self) -> bool:
        return embeddings.is_fragments(self.folder / embeddings.IMAGES)

    def similarity(self, device: torch.device) -> Similarity:
        """The similarity that the footer names; raises as ``Vectors.similarity``."""
        path, none = self.folder / embeddings.IMAGES, np.empty(0, np.int64)
        side: Side | FragmentSide = Side(none, none, none, np.empty((0, 0), np.float32), self.about)
        if self.holds_fragments:
            side = FragmentSide(path, none, none, none, self.about)
        return Vectors(side, side, (str(path), str(path)), self.folder).similarity(device)

    @cached_property
    def left_out(self) -> dict[str, int]:
        """Numbers of unreadable ``images`` and ``captions`` of the split; empty without any."""
        splits, where = SPLITS[:-1] if self.split == ALL else (self.split,), self.folder / embeddings.IMAGES
        counts = [count for split in splits if (count := embeddings.left_out(self.about, split, where))]
        return {key: sum(count[key] for count in counts) for key in counts[0]} if counts else {}

    def _rows(self, name: str, *keys: str) -> list[np.ndarray]:
        """Row numbers of the split in the file, and the values of these columns in them."""
        with opened(self.folder / name) as file:
            table = file.read([*keys, "split"])
        rows = np.arange(len(table))
        if self.split != ALL:
            splits = table["split"].combine_chunks().dictionary_encode()
            codes = {split: code for code, split in enumerate(splits.dictionary.to_pylist())}
            rows = np.flatnonzero(numbers(splits.indices) == codes.get(self.split, -1))
        return [rows, *(numbers(table[key])[rows] for key in keys)]

    def _side(self, name: str) -> Tensor | Words:
        path = self.folder / name
        if self.holds_fragments:
            return self._fragments(path)
        vectors = embeddings.take(path, self._rows(name)[0])
        self.require_unchanged()
        return torch.from_numpy(vectors)

    def _fragments(self, path: Path) -> Tensor | Words:
        side = embeddings.read_fragments(path)
        splits = list(dict.fromkeys(side.splits.tolist())) if self.split == ALL else [self.split]
        blocks = [side.split(split) for split in splits]
        self.require_unchanged()
        vectors = torch.from_numpy(np.concatenate([block.vectors for block in blocks]))
        lengths = np.concatenate([block.lengths for block in blocks])
        if path.name == embeddings.CAPTIONS:
            return Words(vectors, torch.from_numpy(lengths))
        regions = self.about.get("regions")
        if (lengths.astype(str) != regions).any():
            raise InputError(f"{path}: not every image has the {regions} regions of the footer; embed the run again")
        return vectors.unflatten(0, (len(lengths), -1))


def _root(folder: Path) -> Path:
    """data/embed/<run>/ of a network, which may be the peer in it."""
    return folder.parent if folder.name == embeddings.PEER else folder


def footer(path: Path, run: str) -> dict[str, str]:
    """The footer of an embedding file. Raises MissingResource with the command that makes it."""
    if not path.is_file():
        raise MissingResource(f"{path} does not exist; make it with `vse-pipe embed --run {run}`")
    with opened(path) as file:
        metadata = file.schema.metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def opened(path: Path) -> AbstractContextManager[tables.Parquet]:
    """The open file. Raises IntegrityError for a damaged file."""
    return tables.open_parquet(path)
