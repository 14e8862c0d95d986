"""The embeddings of one network: what is searched. Ids are read at once, vectors when they are needed."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Int64
from torch import Tensor

from vse_pipe.artifacts import embeddings, images, joins
from vse_pipe.artifacts.embeddings import FragmentSide, Side, StoredVectors
from vse_pipe.core import mapped, parquet
from vse_pipe.core.errors import Damage, InputError, IntegrityError, MissingResource
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.scores import Similarity

ALL = "all"
SPLITS = ("test", "val", "train", ALL)
_MUST_AGREE = ("run", "model_sha256", "peer_sha256", "similarity", "similarity_params")
States = dict[str, mapped.State]


@dataclass(frozen=True)
class Ids:
    """In the order of the embedding files; caption_images: the image that each caption describes."""

    image_ids: Int64[np.ndarray, " images"]
    caption_ids: Int64[np.ndarray, " captions"]
    caption_images: Int64[np.ndarray, " captions"]


@dataclass(frozen=True)
class Gallery:
    """folder: data/embed/<run>/ or the peer in it; split: one of ``SPLITS``; about: the footer of images.parquet; prepared: the
    folder of the data set that its ids are looked up in; mend: as of ``joins.Origin``; files: all files that scores depend on, as they
    were before the rest was read."""

    folder: Path
    run: str
    split: str
    about: dict[str, str]
    prepared: Path
    mend: str
    files: States = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, run: str, split: str, prepared: Path, mend: str) -> "Gallery":
        """Raises MissingResource with the command that makes the files, InputError for files of another run and where
        the split is empty, IntegrityError for damaged files and for files of other images or captions than are prepared now."""
        of_images, of_captions = (footer(folder / name, run) for name in (embeddings.IMAGES, embeddings.CAPTIONS))
        if of_images.get("run") != run:
            raise InputError(f"{folder}: embeddings of run {of_images.get('run')!r}, expected {run!r}; embed it again")
        for key in _MUST_AGREE:
            if of_images.get(key) != of_captions.get(key):
                raise InputError(f"{folder}: images.parquet and captions.parquet differ in {key}; embed both again")
        return cls(folder, run, split, of_images, prepared, mend).of(split)

    def of(self, split: str) -> "Gallery":
        """The same network's embeddings of another split. Raises InputError where it has no image, IntegrityError where the data set
        now has other images or captions in it."""
        names = (embeddings.IMAGES, embeddings.CAPTIONS, embeddings.WEIGHTS)
        gallery = replace(self, split=split, files=states(self.folder / name for name in names))
        self.require_unchanged()
        joins.require(self.prepared, gallery.origin)
        if not len(gallery.ids.image_ids):
            advice = f"name '{split}' in embed.splits and run `vse-pipe embed --run {self.run}`"
            raise InputError(
                f"{self.folder / embeddings.IMAGES}: nothing of split '{split}'; if the data set has it, {advice}"
            )
        return gallery

    @property
    def origin(self) -> joins.Origin:
        """What the vectors were made from."""
        splits = images.SPLITS if self.split == ALL else (self.split,)
        return embeddings.origin(self.folder, self.about, splits, self.mend)

    @cached_property
    def ids(self) -> Ids:
        _, image_ids = self._rows(embeddings.IMAGES, "image_id")
        _, caption_ids, caption_images = self._rows(embeddings.CAPTIONS, "caption_id", "image_id")
        return Ids(image_ids, caption_ids, caption_images)

    def split_of(self, image_id: int) -> str:
        """Raises InputError where the run has embedded no image of that id."""
        with opened(self.folder / embeddings.IMAGES) as file:
            ids, splits = file.read(["image_id", "split"]).columns
        places = np.flatnonzero(numbers(ids) == image_id)
        if not len(places):
            raise InputError(f"{self.folder / embeddings.IMAGES}: run '{self.run}' has embedded no image_id {image_id}")
        return splits[int(places[0])].as_py()

    def images(self) -> Tensor | Words:
        """Of every image of the split, in the order of ``ids``, on the CPU."""
        return self._side(embeddings.IMAGES)

    def captions(self) -> Tensor | Words:
        return self._side(embeddings.CAPTIONS)

    def require_unchanged(self) -> None:
        """Raises IntegrityError where one of the files is another one than when ids were read: rows of two files would be joined."""
        for path, state in self.files.items():
            mapped.require_state(Path(path), state)

    @property
    def inner(self) -> bool:
        """Is the score of an image and a caption the inner product of one vector each?"""
        return self.about.get("similarity") == "cosine" and not self.holds_fragments

    @cached_property
    def holds_fragments(self) -> bool:
        return embeddings.is_fragments(self.folder / embeddings.IMAGES, "")

    def similarity(self, device: torch.device) -> Similarity:
        """The function that the footer names; raises as ``Embedded.similarity``."""
        path, none = self.folder / embeddings.IMAGES, np.empty(0, np.int64)
        side: Side | FragmentSide = Side(none, none, none, np.empty((0, 0), np.float32), self.about)
        if self.holds_fragments:
            side = FragmentSide(path, none, none, none, self.about)
        return Embedded(self.folder, side, side).similarity(device)

    @cached_property
    def left_out(self) -> dict[str, int]:
        """``images`` and ``captions`` of the split that could not be read, empty where there are none."""
        splits, where = SPLITS[:-1] if self.split == ALL else (self.split,), self.folder / embeddings.IMAGES
        counts = [count for split in splits if (count := embeddings.left_out(self.about, split, where))]
        return {key: sum(count[key] for count in counts) for key in counts[0]} if counts else {}

    def _rows(self, name: str, *keys: str) -> list[np.ndarray]:
        """The rows of the split in the file, and what these columns hold there."""
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
        vectors = StoredVectors.of(path).take(self._rows(name)[0])
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


def numbers(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Without a copy, and without pandas, which ``to_numpy`` and ``pyarrow.compute`` import: half a second."""
    return np.from_dlpack(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def states(files: Iterable[Path]) -> States:
    """Of the files that exist: two calls give the same where nothing was written between them."""
    return {str(path): mapped.file_state(path) for path in files if path.is_file()}


def footer(path: Path, run: str) -> dict[str, str]:
    """Of an embedding file. Raises MissingResource with the command that makes it."""
    if not path.is_file():
        raise MissingResource(f"{path} does not exist; make it with `vse-pipe embed --run {run}`")
    with opened(path) as file:
        metadata = file.schema.metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def opened(path: Path) -> AbstractContextManager[parquet.Parquet]:
    """Raises IntegrityError where the file is damaged."""
    return parquet.opened(path, Damage(IntegrityError, "remove it and embed the run again"))
