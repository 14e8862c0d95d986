"""Vectors or fragments of images and captions: of a run, of files or of arrays."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int64

from vse_pipe.artifacts import embeddings, identity, names
from vse_pipe.artifacts.embeddings import FragmentSide, Side
from vse_pipe.artifacts.images import PROPOSAL
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import text
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import require, sha256
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking import files, fragments, rows
from vse_pipe.ranking.files import Book
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.split import Split, cosine

# The split of vectors from files and arrays, and the image of a caption where nothing names it.
WHOLE, NO_IMAGE = "files", -1
_OF_THE_MODEL = ("model_sha256", "similarity", "similarity_params", "normalised")


@dataclass(frozen=True)
class Vectors:
    """Images and captions of one model, with their ids and splits.

    folder: of a run; where: the two files or arguments, for messages; files: those that were read;
    book: of ids that are text, None for a run, whose folder has names.parquet. origin:
    data/embed/<run>/, also of a second network."""

    images: Side | FragmentSide
    captions: Side | FragmentSide
    where: tuple[str, str]
    folder: Path = Path()
    files: tuple[Path, ...] = ()
    book: Book | None = None
    origin: Path | None = None

    def __post_init__(self) -> None:
        self.must_match(self)

    @classmethod
    def of_run(cls, params: Params, run: str, place: str = "") -> "Vectors":
        """data/embed/<run>/; its splits are checked against the data set on use. place: of a second
        network.

        Raises as ``of_folder``; IntegrityError for embeddings of another model than data/train/
        has."""
        folder, sources = paths.embedded(run), [paths.trained(params.trained(run)), paths.prepared(params.dataset(run))]
        identity.require_current(folder, (), sources)
        return replace(cls.of_folder(folder / place), origin=folder)

    @classmethod
    def of_folder(cls, folder: Path) -> "Vectors":
        """Any folder with the two files of data/embed/<run>/.

        Raises InputError when a file is missing or malformed, or when the two do not belong
        together."""
        files = (folder / embeddings.IMAGES, folder / embeddings.CAPTIONS)
        images, captions = map(embeddings.read, files)
        return cls(images, captions, (str(files[0]), str(files[1])), folder, files)

    @classmethod
    def of_files(
        cls,
        images: Path | None,
        captions: Path | None,
        similarity: str = "cosine",
        *,
        image_ids: Path | None = None,
        caption_ids: Path | None = None,
        caption_images: Path | None = None,
    ) -> "Vectors":
        """One split, ``WHOLE``, from files of any program; None for a side without a file.

        image_ids, caption_ids, caption_images: files for vectors without ids of their own, which
        else count from 0. similarity: cosine scales each vector to length 1, dot leaves it.
        Raises as ``files.read_vectors`` and ``rows.checked``."""
        book = Book()
        sides = [
            _side_of_file(*file, book, similarity)
            for file in (
                (images, "image_id", image_ids, None),
                (captions, "caption_id", caption_ids, caption_images),
            )
        ]
        read = tuple(path for path in (images, captions, image_ids, caption_ids, caption_images) if path is not None)
        where = str(images or ""), str(captions or "")
        return cls(sides[0], sides[1], where, Path(), read, book)

    @classmethod
    def of_arrays(
        cls,
        images: Float[np.ndarray, "images dim"],
        captions: Float[np.ndarray, "captions same"],
        owners: Int64[np.ndarray, " captions"] | None,
        similarity: str = "cosine",
        *,
        where: tuple[str, str] = ("images", "captions"),
    ) -> "Vectors":
        """One split, ``WHOLE``, whose ids are the numbers of rows. owners: the row of each
        caption's image, None where nothing says it. where: names of the two arguments; similarity:
        as in ``of_files``."""
        book, named = Book(), np.full(len(captions), NO_IMAGE) if owners is None else owners
        sides = [
            _side(name, np.arange(len(vectors)), image_ids, vectors, {}, similarity)
            for name, vectors, image_ids in zip(where, (images, captions), (np.arange(len(images)), named), strict=True)
        ]
        return cls(sides[0], sides[1], where, book=book)

    @property
    def peer_sha256(self) -> str | None:
        """Digest of the second network of the run, None without one."""
        return self.images.about.get("peer_sha256")

    @property
    def compared_by(self) -> str:
        return self.images.about.get("similarity", "")

    def transfer(self, split: str) -> dict[str, object]:
        """``run``, ``trained_on`` and ``dataset`` of a run on a data set that it was not trained
        on; ``unknown_words`` is the share of the split's words outside the run's vocabulary, where
        it has one. Else empty."""
        about = json.loads(self.images.about.get(embeddings.TRANSFER, "{}"))
        share = about.pop("unknown_words", {}).get(split)
        return about if share is None else {**about, "unknown_words": share}

    def require_current(self, splits: Iterable[str]) -> None:
        """Raises IntegrityError for vectors of other images or captions than there are now."""
        if self.origin is not None:
            identity.require_current(self.origin, splits)

    def about(self, split: str) -> dict[str, Any]:
        """``transfer``, ``left_out`` and ``data``, the split's digest, if there."""
        keys = (embeddings.DATA, embeddings.LEFT_OUT)
        footer = {key: embeddings.footer_value(self.images.about, key, split) for key in keys}
        values = {"transfer": self.transfer(split), **footer}
        return {name: value for name, value in values.items() if value}

    def split(self, name: str, device: torch.device, paired: bool = True) -> Split:
        """Raises InputError when the split is empty, or when an image or caption has no counterpart
        (unless there are no captions at all); IntegrityError as ``has``. paired: False where
        judgements say what is correct, or nothing has to."""
        if not self.has(name) and paired:
            splits = ", ".join(sorted(set(self.images.splits)))
            raise InputError(
                f"{self.where[0]}: no image of split '{name}', it holds {splits}; name '{name}' in embed.splits and embed "
                "the run again, if the data set has it"
            )
        images, captions = self.images.split(name), self.captions.split(name)
        if paired and len(self.captions.ids):
            self._require_pairs(images, captions)
        pictures, words = (torch.from_numpy(side.vectors).to(device) for side in (images, captions))
        if images.lengths is not None:
            pictures = pictures.unflatten(0, (-1, int(self.images.about["regions"])))
        texts = words if captions.lengths is None else Words(words, torch.from_numpy(captions.lengths))
        return Split(images.ids, captions.ids, captions.image_ids, pictures, texts)

    def _require_pairs(self, images: Side, captions: Side) -> None:
        if len(captions.ids) and (captions.image_ids == NO_IMAGE).all():
            raise InputError(
                f"{self.where[1]}: nothing says which caption belongs to which image; give --caption-images or --qrels"
            )
        for where, side, opposite, problem in (
            (self.where[1], captions, images, f"images of captions are not in {self.where[0]}"),
            (self.where[0], images, captions, "images have no caption"),
        ):
            lonely = np.setdiff1d(side.image_ids, opposite.image_ids)
            if len(lonely):
                raise InputError(f"{where}: {len(lonely)} {problem}: {self.label('image_id', lonely)}")

    def has(self, name: str) -> bool:
        """Whether the split has an image. Raises IntegrityError for another split now."""
        self.require_current([name])
        return bool((self.images.splits == name).any())

    def all_splits(self, device: torch.device) -> Split:
        """All splits as one, without proposed boxes. Raises InputError for fragments."""
        if isinstance(self.images, FragmentSide) or isinstance(self.captions, FragmentSide):
            raise InputError(f"{self.folder}: a bank of another folder must be one of vectors, not of fragments")
        rows, texts = self.images.splits != PROPOSAL, self.captions
        images, captions = (torch.tensor(side, device=device) for side in (self.images.vectors[rows], texts.vectors))
        return Split(self.images.ids[rows], texts.ids, texts.image_ids, images, captions)

    def must_match(self, vectors: "Vectors") -> None:
        """Raises InputError unless both have the same model, similarity and width."""
        ours = _facts(self.images)
        for where, side in zip(vectors.where, (vectors.images, vectors.captions), strict=True):
            for key, value in _facts(side).items():
                if value != ours.get(key, value):
                    raise InputError(
                        f"{where}: {key} is {value!r}, that of {self.where[0]} is {ours[key]!r}; both must come from "
                        "one model"
                    )

    def label(self, key: str, ids: np.ndarray) -> str:
        """Some ids for a message. key: image_id or caption_id; arrays have numbers of rows."""
        return (self.book or Book()).label(key if self.files else "row", ids)

    @property
    def names(self) -> TextIds | None:
        """The texts of ids; None where all ids are numbers."""
        return names.read(self.folder) if self.book is None else self.book.names()

    def similarity(self, device: torch.device | None = None) -> Similarity:
        """The function of (images, captions) named in the footer, larger is closer; its weights on
        ``device``. Vectors of files and arrays have inner products.

        Raises as ``member``, IntegrityError for other weights than the footer's."""
        if self.book is not None:
            return cosine
        member, about, path = self.member(), self.images.about, self.folder / embeddings.WEIGHTS
        if not SIMILARITIES.traits(member.name).learns:
            return fragments.Similarity(member)
        if sha256(require(path)) != about.get("weights_sha256"):
            raise IntegrityError(f"{path}: content does not match the digest in images.parquet; embed the run again")
        from safetensors.torch import load_file

        model = fragments.build_similarity(member, int(about["dim"]), int(about["regions"]), torch.Generator())
        assert model.network is not None
        model.network.load_state_dict(load_file(path))
        return model.eval().requires_grad_(False).to(device or torch.device("cpu"))

    def member(self) -> Member:
        """The similarity named in the footer. Raises UsageError for an unknown one."""
        about = self.images.about
        options = SIMILARITIES.options(about.get("similarity", ""))
        return Member(about["similarity"], options.model_validate_json(about.get("similarity_params", "{}")))


def _side_of_file(
    path: Path | None,
    key: str,
    ids: Path | None,
    owners: Path | None,
    book: Book,
    similarity: str,
) -> Side:
    """A side without rows where there is no file. Rows without ids have their numbers as ids, also
    in judgements."""
    if path is None:
        none = np.empty(0, np.int64)
        return _side("", none, none, np.empty((0, 0), np.float32), {}, similarity)
    if path.suffix == ".parquet" and (file := ids or owners):
        raise UsageError(f"{file}: {path} has ids of its own")
    content = files.read_vectors(path, key)
    count = len(content.vectors)
    stored = content.ids if ids is None else files.read_ids(ids, count, str(path))
    if stored is None:
        stored = pa.array(np.arange(count)).cast(pa.string())
    numbers = book.numbers(key, str(ids or path), stored)
    if len(repeated := numbers[text.repeats(numbers)[0]]):
        raise InputError(f"{ids or path}: {len(repeated)} ids occur more than once: {book.label(key, repeated)}")
    images: np.ndarray = numbers
    if key == "caption_id":
        named = content.owners if owners is None else files.read_ids(owners, count, str(path))
        images = np.full(count, NO_IMAGE)
        if named is not None:
            images = book.numbers("image_id", str(owners or path), named)
    return _side(str(path), numbers, images, content.vectors, content.about, similarity)


def _side(
    where: str,
    ids: Int64[np.ndarray, " rows"],
    image_ids: Int64[np.ndarray, " rows"],
    vectors: np.ndarray,
    about: dict[str, str],
    similarity: str,
) -> Side:
    if where:
        vectors = rows.checked(where, vectors, similarity)
    splits = np.broadcast_to(np.array(WHOLE), len(ids))
    return Side(ids, image_ids, splits, vectors, {**about, "similarity": similarity})


def _facts(side: Side | FragmentSide) -> dict[str, object]:
    """What vectors of one model have in common, as far as it is known."""
    facts: dict[str, object] = {key: side.about[key] for key in _OF_THE_MODEL if key in side.about}
    return facts | ({"width": side.vectors.shape[1]} if isinstance(side, Side) and len(side.ids) else {})
