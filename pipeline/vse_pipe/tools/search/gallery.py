"""The embeddings of one network: what is searched. Ids are read at once, vectors where they are asked for."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Int64

from vse_pipe.artifacts import embeddings, fragments, images, joins
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.artifacts.fragments import FragmentSide
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.project import paths
from vse_pipe.tools.search import stored
from vse_pipe.tools.search.columns import ALL, footer, numbers, opened, rows

if TYPE_CHECKING:  # torch takes longer to import than a search by vectors takes
    import torch
    from torch import Tensor

    from vse_pipe.ranking.engine.embedded import Embedded
    from vse_pipe.ranking.engine.scores import Similarity
    from vse_pipe.ranking.engine.words import Words

# Bytes of vectors that are worth unpacking: Parquet gives 120 MB in 0.6 s, a memory map at once.
_LARGE = 1 << 24
# Rows of a Parquet file that are read at once.
_ROWS = 1 << 15
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
    """folder: data/embed/<run>/ or the peer in it; split: one of ``SPLITS``; about: the footer of images.parquet; prepared: the data set
    that its ids are looked up in; mend: as of ``joins.Origin``; files: everything that scores follow from, as it was before the rest
    was read."""

    folder: Path
    run: str
    split: str
    about: dict[str, str]
    prepared: Path
    mend: str
    files: stored.Stamps = field(default_factory=dict)
    _read: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, run: str, split: str, prepared: Path, mend: str) -> "Gallery":
        """Raises MissingResource naming the command that makes the files, InputError for those of another run and where
        nothing is of that split, IntegrityError for damaged ones and for those of other images or captions than are prepared now."""
        ours, theirs = (footer(folder / name, run) for name in (embeddings.IMAGES, embeddings.CAPTIONS))
        if ours.get("run") != run:
            raise InputError(f"{folder}: embeddings of run {ours.get('run')!r}, expected {run!r}; embed it again")
        for key in _MUST_AGREE:
            if ours.get(key) != theirs.get(key):
                raise InputError(f"{folder}: images.parquet and captions.parquet differ in {key}; embed both again")
        return cls(folder, run, split, ours, prepared, mend).of(split)

    @property
    def origin(self) -> joins.Origin:
        """What the vectors were made from."""
        splits = images.SPLITS if self.split == ALL else (self.split,)
        return embeddings.origin(self.folder, self.about, splits, self.mend)

    def of(self, split: str) -> "Gallery":
        """The same network's embeddings of another split. Raises InputError where it has no image, IntegrityError where the data set
        now has other images or captions in it."""
        names = (embeddings.IMAGES, embeddings.CAPTIONS, fragments.WEIGHTS)
        files = stored.stamped(path for name in names if (path := self.folder / name).is_file())
        found = replace(self, split=split, files=files, _read={})
        if self.files:
            self.require_unchanged()
        joins.require(self.prepared, found.origin)
        if not len(found.ids.image_ids):
            advice = f"name '{split}' in embed.splits and run `vse-pipe embed --run {self.run}`"
            raise InputError(
                f"{self.folder / embeddings.IMAGES}: nothing of split '{split}'; if the data set has it, {advice}"
            )
        return found

    @cached_property
    def ids(self) -> Ids:
        images = self._columns(embeddings.IMAGES, "image_id")
        captions = self._columns(embeddings.CAPTIONS, "caption_id", "image_id")
        return Ids(*images, *captions)

    def split_of(self, image_id: int) -> str:
        """Where an image is. Raises InputError where the run has embedded none of that id."""
        with opened(self.folder / embeddings.IMAGES) as file:
            ids, splits = file.read(["image_id", "split"]).columns
        place = np.flatnonzero(numbers(ids) == image_id)
        if not len(place):
            raise InputError(f"{self.folder / embeddings.IMAGES}: run '{self.run}' has embedded no image_id {image_id}")
        return splits[int(place[0])].as_py()

    def images(self) -> "Tensor | Words":
        """Of every image of the split, in the order of ``ids``, on the CPU."""
        return self._side(embeddings.IMAGES)

    def captions(self) -> "Tensor | Words":
        return self._side(embeddings.CAPTIONS)

    def vectors(self, name: str) -> Float32[np.ndarray, "rows dim"]:
        """Of a model that has one each, by the name of their file. Large ones that were unpacked are mapped, not read."""
        found = stored.read(*self._place(name))
        if found is not None:
            return found.tensors["vectors"]
        vectors = self._vectors(self.folder / name)
        self.require_unchanged()
        if vectors.nbytes >= _LARGE:
            self._read[name] = vectors
        return vectors

    def require_unchanged(self) -> None:
        """Raises IntegrityError where one of the files is another one than when ids were read: rows of two files would be joined."""
        there = [path for path in self.files if path.is_file()]
        if stored.stamped(there) != self.files:
            raise IntegrityError(f"{self.folder}: made anew while it is searched; start the search again")

    def keep(self) -> None:
        """Unpack vectors that are large and were read from Parquet, so that the next search maps them into memory."""
        for name, vectors in self._read.items():
            path, identity, files = self._place(name)
            stored.write(path, stored.Stored({"vectors": vectors}, {}), identity, files)
        self._read.clear()

    @property
    def inner(self) -> bool:
        """Is the score of an image and a caption the inner product of one vector each?"""
        return self.about.get("similarity") == "cosine" and not self.holds_fragments

    def similarity(self, device: "torch.device") -> "Similarity":
        """The function that the footer names; raises as ``Embedded.similarity``."""
        return self._footer_alone().similarity(device)

    @cached_property
    def left_out(self) -> dict[str, int]:
        """``images`` and ``captions`` of the split that could not be read, empty where there are none."""
        splits, where = SPLITS[:-1] if self.split == ALL else (self.split,), self.folder / embeddings.IMAGES
        found = [one for split in splits if (one := embeddings.left_out(self.about, split, where))]
        return {key: sum(one[key] for one in found) for key in found[0]} if found else {}

    def _footer_alone(self) -> "Embedded":
        """What the footer says, without a row."""
        from vse_pipe.ranking.engine.embedded import Embedded

        nothing = np.empty(0, np.int64)
        if self.holds_fragments:
            side: Side | FragmentSide = FragmentSide(
                self.folder / embeddings.IMAGES, nothing, nothing, nothing, self.about
            )
        else:
            side = Side(nothing, nothing, nothing, np.empty((0, 0), np.float32), self.about)
        return Embedded(self.folder, side, side)

    @cached_property
    def holds_fragments(self) -> bool:
        return fragments.is_fragments(self.folder / embeddings.IMAGES, "")

    def _columns(self, name: str, *keys: str) -> list[np.ndarray]:
        with opened(self.folder / name) as file:
            table = file.read([*keys, "split"])
        stored = rows(table["split"], self.split)
        return [numbers(table[key])[stored] for key in keys]

    def _side(self, name: str) -> "Tensor | Words":
        if self.holds_fragments:
            return self._fragments(name)
        import torch

        return torch.from_numpy(self.vectors(name))

    def _place(self, name: str) -> tuple[Path, dict, stored.Stamps]:
        """Where unpacked vectors are kept, what they are, and the file they come from."""
        path = paths.searched(self.run) / f"{self.folder.name}.{Path(name).stem}.{self.split}.safetensors"
        return (
            path,
            {"vectors": name, "split": self.split},
            {one: stamp for one, stamp in self.files.items() if one.name == name},
        )

    def _fragments(self, name: str) -> "Tensor | Words":
        import torch

        from vse_pipe.ranking.engine.words import Words

        path = self.folder / name
        side = fragments.read(path)
        splits = list(dict.fromkeys(side.splits.tolist())) if self.split == ALL else [self.split]
        blocks = [side.split(one) for one in splits]
        self.require_unchanged()
        vectors = torch.from_numpy(np.concatenate([block.vectors for block in blocks]))
        lengths = np.concatenate([block.lengths for block in blocks])
        if name == embeddings.CAPTIONS:
            return Words(vectors, torch.from_numpy(lengths))
        said = self.about.get("regions")
        if (lengths.astype(str) != said).any():
            raise InputError(f"{path}: not every image has the {said} regions of the footer; embed the run again")
        return vectors.unflatten(0, (len(lengths), -1))

    def _vectors(self, path: Path) -> Float32[np.ndarray, "rows dim"]:
        """Some thousand rows at a time: never much more in memory than is returned."""
        found, filled = np.empty((0, 0), np.float32), 0
        with opened(path) as file:
            for table in file.batches(["split", "embedding"], rows=_ROWS):
                column = table["embedding"].combine_chunks()
                if not pa.types.is_fixed_size_list(column.type) or column.type.value_type != pa.float32():
                    raise InputError(f"{path}: column 'embedding' is {column.type}, expected fixed_size_list<float32>")
                vectors = numbers(column.flatten()).reshape(len(column), column.type.list_size)
                vectors = vectors[rows(table["split"], self.split)]
                if not np.isfinite(vectors).all():
                    raise InputError(f"{path}: embeddings hold NaN or infinite values")
                if not found.size:
                    of_file = "image_ids" if path.name == embeddings.IMAGES else "caption_ids"
                    found = np.empty((len(getattr(self.ids, of_file)), vectors.shape[1]), np.float32)
                found[filled : filled + len(vectors)] = vectors
                filled += len(vectors)
        return found
