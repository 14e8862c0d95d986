"""The embeddings of one network: what is searched. Ids are read at once, vectors where they are asked for."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from jaxtyping import Int64

from pipeline.artifacts import embeddings, fragments
from pipeline.artifacts.embeddings import Side
from pipeline.artifacts.fragments import FragmentSide
from pipeline.errors import InputError, IntegrityError, MissingResource
from pipeline.evaluate.embedded import Embedded
from pipeline.evaluate.fragments import Sides
from pipeline.evaluate.scores import Similarity
from pipeline.train.words import Words

ALL = "all"
SPLITS = ("test", "val", "train", ALL)
_MUST_AGREE = ("run", "model_sha256", "peer_sha256", "similarity", "similarity_params")


@dataclass(frozen=True)
class Ids:
    """In the order of the embedding files; caption_images: the image that each caption describes."""

    image_ids: Int64[np.ndarray, " images"]
    caption_ids: Int64[np.ndarray, " captions"]
    caption_images: Int64[np.ndarray, " captions"]


@dataclass(frozen=True)
class Gallery:
    """folder: data/embed/<run>/ or the peer in it; split: one of ``SPLITS``; about: the footer of images.parquet."""

    folder: Path
    run: str
    split: str
    about: dict[str, str]

    @classmethod
    def open(cls, folder: Path, run: str, split: str) -> "Gallery":
        """Raises MissingResource naming the command that makes the files, InputError for those of another run and where
        nothing is of that split, IntegrityError for damaged ones."""
        ours, theirs = (_footer(folder / name, run) for name in (embeddings.IMAGES, embeddings.CAPTIONS))
        if ours.get("run") != run:
            raise InputError(
                f"{folder}: embeddings of run {ours.get('run')!r}, expected {run!r}; embed it again"
            )
        for key in _MUST_AGREE:
            if ours.get(key) != theirs.get(key):
                raise InputError(
                    f"{folder}: images.parquet and captions.parquet differ in {key}; embed both again"
                )
        return cls(folder, run, split, ours).of(split)

    def of(self, split: str) -> "Gallery":
        """The same network's embeddings of another split. Raises InputError where it has no image or no caption."""
        found = replace(self, split=split)
        for name, ids in [
            (embeddings.IMAGES, found.ids.image_ids),
            (embeddings.CAPTIONS, found.ids.caption_ids),
        ]:
            if not len(ids):
                advice = f"name '{split}' in embed.splits and run `vse-pipe embed --run {self.run}`"
                raise InputError(
                    f"{self.folder / name}: nothing of split '{split}'; if the data set has it, {advice}"
                )
        return found

    @property
    def files(self) -> list[Path]:
        """Everything that scores follow from."""
        names = (embeddings.IMAGES, embeddings.CAPTIONS, fragments.WEIGHTS)
        return [path for name in names if (path := self.folder / name).is_file()]

    @cached_property
    def ids(self) -> Ids:
        images = self._columns(embeddings.IMAGES, "image_id")
        captions = self._columns(embeddings.CAPTIONS, "caption_id", "image_id")
        return Ids(*(column.to_numpy() for column in (*images.columns, *captions.columns)))

    def images(self, device: torch.device) -> Sides:
        """Of every image of the split, in the order of ``ids``."""
        return self._side(embeddings.IMAGES, device)

    def captions(self, device: torch.device) -> Sides:
        return self._side(embeddings.CAPTIONS, device)

    def image(self, image_id: int, device: torch.device) -> Sides:
        """One image, of whatever split. Raises InputError where the run has embedded none of that id."""
        everything = self.of(ALL)
        place = np.flatnonzero(everything.ids.image_ids == image_id)
        if not len(place):
            raise InputError(
                f"{self.folder / embeddings.IMAGES}: run '{self.run}' has embedded no image_id {image_id}"
            )
        return everything.images(device)[int(place[0]) : int(place[0]) + 1]

    def similarity(self, device: torch.device) -> Similarity:
        """The function that the footer names; raises as ``Embedded.similarity``."""
        nothing = np.empty(0, np.int64)
        if self._holds_fragments:
            side = FragmentSide(self.folder / embeddings.IMAGES, nothing, nothing, nothing, self.about)
        else:
            side = Side(nothing, nothing, nothing, np.empty((0, 0), np.float32), self.about)
        return Embedded(self.folder, side, side).similarity(device)

    @cached_property
    def _holds_fragments(self) -> bool:
        return fragments.is_fragments(self.folder / embeddings.IMAGES, "")

    def _columns(self, name: str, *keys: str) -> pa.Table:
        table = _opened(self.folder / name, lambda file: file.read(columns=[*keys, "split"]))
        kept = table if self.split == ALL else table.filter(pc.equal(table["split"], self.split))
        return kept.select(keys)

    def _side(self, name: str, device: torch.device) -> Sides:
        path = self.folder / name
        if not self._holds_fragments:
            side = embeddings.read(path, f"vse-pipe embed --run {self.run}")
            return torch.tensor(side.vectors[_rows(side.splits, self.split)], device=device)
        side = fragments.read(path)
        splits = list(dict.fromkeys(side.splits.tolist())) if self.split == ALL else [self.split]
        blocks = [side.split(one) for one in splits]
        vectors = torch.from_numpy(np.concatenate([block.vectors for block in blocks])).to(device)
        lengths = np.concatenate([block.lengths for block in blocks])
        if name == embeddings.CAPTIONS:
            return Words(vectors, torch.from_numpy(lengths))
        if (lengths.astype(str) != self.about.get("regions")).any():
            raise InputError(
                f"{path}: not every image has the {self.about.get('regions')} regions of the footer; embed the run again"
            )
        return vectors.unflatten(0, (len(lengths), -1))


def _rows(splits: np.ndarray, wanted: str) -> np.ndarray | slice:
    """A slice where all rows are wanted: it copies nothing."""
    kept = np.ones(len(splits), bool) if wanted == ALL else splits == wanted
    return slice(None) if kept.all() else kept


def _footer(path: Path, run: str) -> dict[str, str]:
    if not path.is_file():
        raise MissingResource(f"{path} does not exist; make it with `vse-pipe embed --run {run}`")
    found = _opened(path, lambda file: file.schema_arrow.metadata or {})
    return {key.decode(): value.decode() for key, value in found.items()}


def _opened(path: Path, read):
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return read(file)
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise IntegrityError(
            f"{path}: damaged Parquet file ({reason}); remove it and embed the run again"
        ) from error
