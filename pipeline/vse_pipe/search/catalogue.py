"""Searched data: the embeddings of one network, the files and texts of the data set, and conditions on columns of images.parquet."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from vse_pipe.artifacts import captions, embeddings, images, joins
from vse_pipe.artifacts.embeddings import FragmentSide, Side, StoredVectors
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import tables
from vse_pipe.core.errors import Damage, InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import State, inside, require_state, state_of
from vse_pipe.pictures.address import path_of
from vse_pipe.pictures.images import page_bytes
from vse_pipe.project import paths
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.vectors import Vectors

ALL = "all"
SPLITS = ("test", "val", "train", ALL)
_MUST_AGREE = ("run", "model_sha256", "peer_sha256", "similarity", "similarity_params")
States = dict[str, State]


@dataclass(frozen=True)
class Ids:
    """Ids in the order of the embedding files; caption_images: image of each caption."""

    image_ids: Int64[np.ndarray, " images"]
    caption_ids: Int64[np.ndarray, " captions"]
    caption_images: Int64[np.ndarray, " captions"]


@dataclass(frozen=True)
class Gallery:
    """folder: data/embed/<run>/ or the peer in it; split: one of ``SPLITS``; about: footer of images.parquet; prepared:
    folder of the data set; files: states of all files that scores depend on, before
    anything else was read."""

    folder: Path
    run: str
    split: str
    about: dict[str, str]
    prepared: Path
    files: States = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, run: str, split: str, prepared: Path) -> "Gallery":
        """Raises MissingResource with the command that makes the files, InputError for files of another run and an
        empty split, IntegrityError for damaged files and for files of other images or captions than the prepared
        ones."""
        image_footer, caption_footer = (footer(folder / name, run) for name in (embeddings.IMAGES, embeddings.CAPTIONS))
        if image_footer.get("run") != run:
            embedded = image_footer.get("run")
            raise InputError(f"{folder}: embeddings of run {embedded!r}, expected {run!r}; embed it again")
        for key in _MUST_AGREE:
            if image_footer.get(key) != caption_footer.get(key):
                raise InputError(f"{folder}: images.parquet and captions.parquet differ in {key}; embed both again")
        return cls(folder, run, split, image_footer, prepared).on_split(split)

    def on_split(self, split: str) -> "Gallery":
        """The network's embeddings of another split. Raises InputError for an empty split, IntegrityError if the data
        set now has other images or captions in it."""
        names = (embeddings.IMAGES, embeddings.CAPTIONS, embeddings.WEIGHTS)
        gallery = replace(self, split=split, files=states(self.folder / name for name in names))
        self.require_unchanged()
        joins.require(self.prepared, gallery.origin)
        if not len(gallery.ids.image_ids):
            advice = f"name '{split}' in embed.splits and run `vse-pipe embed --run {self.run}`"
            path = self.folder / embeddings.IMAGES
            raise InputError(f"{path}: nothing of split '{split}'; if the data set has it, {advice}")
        return gallery

    @property
    def origin(self) -> joins.Origin:
        """The data that the vectors were made from."""
        splits = images.SPLITS if self.split == ALL else (self.split,)
        return embeddings.origin(self.folder, self.about, splits)

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
        """Raises IntegrityError if a file has changed since ids were read: ids and vectors would not belong
        together."""
        for path, state in self.files.items():
            require_state(Path(path), state)

    @property
    def inner(self) -> bool:
        """Is the score the inner product of one vector of the image and one of the caption?"""
        return self.about.get("similarity") == "cosine" and not self.holds_fragments

    @cached_property
    def holds_fragments(self) -> bool:
        return embeddings.is_fragments(self.folder / embeddings.IMAGES, "")

    def similarity(self, device: torch.device) -> Similarity:
        """The similarity that the footer names; raises as ``Vectors.similarity``."""
        path, none = self.folder / embeddings.IMAGES, np.empty(0, np.int64)
        side: Side | FragmentSide = Side(none, none, none, np.empty((0, 0), np.float32), self.about)
        if self.holds_fragments:
            side = FragmentSide(path, none, none, none, self.about)
        return Vectors(side, side, (str(path), str(path)), self.folder).similarity(device)

    @cached_property
    def left_out(self) -> dict[str, int]:
        """Numbers of unreadable ``images`` and ``captions`` of the split, empty if there are none."""
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
        vectors = StoredVectors.open(path).take(self._rows(name)[0])
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
    """The column as an array without a copy. ``to_numpy`` and ``pyarrow.compute`` would import pandas, which takes half
    a second."""
    return np.from_dlpack(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def states(files: Iterable[Path]) -> States:
    """States of the files that exist. They are equal in two calls unless a file was written between them."""
    return {str(path): state_of(path) for path in files if path.is_file()}


def footer(path: Path, run: str) -> dict[str, str]:
    """The footer of an embedding file. Raises MissingResource with the command that makes the file."""
    if not path.is_file():
        raise MissingResource(f"{path} does not exist; make it with `vse-pipe embed --run {run}`")
    with opened(path) as file:
        metadata = file.schema.metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items()}


def opened(path: Path) -> AbstractContextManager[tables.Parquet]:
    """The open file. Raises IntegrityError for a damaged file."""
    return tables.open_parquet(path, Damage(IntegrityError, "remove it and embed the run again"))


_IMAGES = ["image_id", "file", "width", "height", "sha256"]
_PRECOMPUTED = "_ims.npy#"
_CAPTIONS = ["caption_id", "image_id", "text"]


@dataclass(frozen=True)
class Catalogue:
    """dataset: its name; images, captions: the tables of data/prepare/<dataset>/; origins: as in ``read``."""

    dataset: str
    images: pa.Table
    captions: pa.Table
    origins: tuple[joins.Origin, ...] = ()

    @classmethod
    def read(cls, dataset: str, *origins: joins.Origin) -> "Catalogue":
        """origins: of the vectors that use these ids. Raises MissingResource if the data set is not prepared,
        IntegrityError as ``joins.compared``, and as the readers of the artefacts."""
        folder = paths.prepared(dataset)
        for name in (images.NAME, captions.NAME):
            if not (folder / name).is_file():
                command = f"vse-pipe prepare --dataset {dataset}"
                raise MissingResource(f"{folder / name} does not exist; make it with `{command}`")
        with joins.compared(folder, *origins):
            of_images, of_captions = (
                tables.read(folder / table.NAME, pa.schema([table.SCHEMA.field(name) for name in names]), columns=names)
                for table, names in ((images, _IMAGES), (captions, _CAPTIONS))
            )
        return cls(dataset, of_images, of_captions, origins)

    @cached_property
    def columns(self) -> pa.Table:
        """All columns of images.parquet. Raises IntegrityError if the data set has changed."""
        folder = paths.prepared(self.dataset)
        with joins.compared(folder, *self.origins):
            return tables.read(folder / images.NAME, images.SCHEMA)

    def fitting(self, conditions: Sequence[str], names: TextIds | None) -> Int64[np.ndarray, " images"]:
        """Ids of the images that fit all conditions, each ``COLUMN=VALUE``; they see the data set's
        own image_id. Raises UsageError for an unknown column and a value of another kind."""
        table, ids = self.columns, numbers(self.columns["image_id"])
        texts = None if names is None else names.texts("image_id", ids)
        if texts is not None:
            table = table.set_column(table.column_names.index("image_id"), "image_id", texts)
        fits = np.ones(len(table), bool)
        for condition in conditions:
            fits &= _equal(table, condition)
        return ids[fits]

    def file(self, image_id: int) -> str:
        """The file name in images.parquet, or for precomputed features the name in ``<split>_ids.txt`` if there is
        one."""
        file = self._cell("file", image_id)
        return self._names.get(file, file) if _PRECOMPUTED in file else file

    def size(self, image_id: int) -> tuple[int, int]:
        """Width and height of the upright picture in pixels, 0 for an image that exists only as features."""
        return self._cell("width", image_id), self._cell("height", image_id)

    def first_caption(self, image_id: int) -> str:
        """The first caption of the image, empty if it has none."""
        place = _place(self._first_captions, image_id)
        return "" if place is None else self.captions["text"][place].as_py()

    def text(self, caption_id: int) -> str:
        place = _place(self._caption_order, caption_id)
        if place is None:
            raise InputError(self._absent("caption_id", caption_id, captions.NAME))
        return self.captions["text"][place].as_py()

    def path(self, image_id: int) -> Path | None:
        """The path of the image for ``pictures.images.page_bytes``: a file, or a member of a shard. None if the file is missing or
        only features exist. Raises InputError for a name outside the data set's root."""
        if not self._cell("width", image_id):
            return None
        where = f"{paths.prepared(self.dataset) / images.NAME}: image_id {image_id}"
        root, file = images.root(self.images), self._cell("file", image_id)
        return root / file if inside(root, path_of(file), where).is_file() else None

    def content(self, image_id: int, read: Callable[[Path, str], bytes | None] = page_bytes) -> bytes | None:
        """The bytes of the image by ``read``, None where ``path`` is. Raises IntegrityError where the file is another one
        than ``prepare`` read."""
        path = self.path(image_id)
        return None if path is None else read(path, self._cell("sha256", image_id))

    def _cell(self, column: str, image_id: int):
        place = _place(self._image_order, image_id)
        if place is None:
            raise InputError(self._absent("image_id", image_id, images.NAME))
        return self.images[column][place].as_py()

    def _absent(self, key: str, value: int, name: str) -> str:
        return f"{paths.prepared(self.dataset) / name}: no {key} {value}; prepare and embed the data set again"

    @cached_property
    def _names(self) -> dict[str, str]:
        by_prefix: dict[str, list[str]] = {}
        for file in self.images["file"].to_pylist():
            by_prefix.setdefault(file.rpartition(_PRECOMPUTED)[0], []).append(file)
        root = images.root(self.images)
        names: dict[str, str] = {}
        for prefix, files in by_prefix.items():
            names.update(zip(files, _lines(root / f"{prefix}_ids.txt", len(files)), strict=False))
        return names

    @cached_property
    def _image_order(self) -> tuple[np.ndarray, np.ndarray]:
        return _order(numbers(self.images["image_id"]))

    @cached_property
    def _caption_order(self) -> tuple[np.ndarray, np.ndarray]:
        return _order(numbers(self.captions["caption_id"]))

    @cached_property
    def _first_captions(self) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(numbers(self.captions["image_id"]), return_index=True)


def _lines(path: Path, count: int) -> list[str]:
    """A line of ``path`` for each of ``count`` images; a file with a line for each caption must repeat it for each
    image. Empty if there is no such file or its lines do not fit."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    size = len(lines) // count
    blocks = [{line.strip() for line in lines[start : start + size]} for start in range(0, size * count, size or 1)]
    fits = size * count == len(lines) and all(len(block) == 1 for block in blocks)
    return [block.pop() for block in blocks] if fits else []


def _order(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(ids, kind="stable")
    return ids[order], order


def _place(order: tuple[np.ndarray, np.ndarray], number: int) -> int | None:
    ids, places = order
    first = int(np.searchsorted(ids, number))
    return int(places[first]) if first < len(ids) and ids[first] == number else None


def _equal(table: pa.Table, condition: str) -> Bool[np.ndarray, " rows"]:
    name, sign, value = (part.strip() for part in condition.partition("="))
    if not sign or name not in table.column_names:
        known = ", ".join(table.column_names)
        raise UsageError(f"--where {condition!r}: expected COLUMN=VALUE with a column of {known}")
    kind = table.schema.field(name).type
    try:
        wanted = pa.scalar(value).cast(kind)
    except pa.ArrowInvalid as error:
        raise UsageError(f"--where {condition!r}: column {name} is {kind}") from error
    return np.asarray(pc.equal(table[name], wanted))
