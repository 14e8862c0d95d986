"""The table of words of a text encoder that starts from a file of word vectors."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from vse_pipe.artifacts import captions, features, regions, texts
from vse_pipe.artifacts import pairs as artifacts_pairs
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import weights
from vse_pipe.core.arrays import read_word_vectors
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.core.text import SPECIAL
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet, Member, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, SCHEMES, TEXT_ENCODERS
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.train.data import Pairs, PixelNetwork, TrainRegions, TrainTable, mentions_of


@dataclass(frozen=True)
class Start:
    """vectors: what the ``rows`` of the table start from; frozen: the whole table is not trained."""

    rows: Int[Tensor, " known"]
    vectors: Float[Tensor, "known dim"]
    frozen: bool

    def fill(self, table: nn.Embedding) -> None:
        """Rows of words without a vector stay as they were drawn."""
        with torch.no_grad():
            table.weight[self.rows] = self.vectors
        table.weight.requires_grad_(not self.frozen)


def vector_files(text: Member) -> list[Path]:
    """Those that the encoder's table starts from, the vectors first; none where it is drawn."""
    if not TEXT_ENCODERS.traits(text.name).vectors:
        return []
    return [Path(name).expanduser() for name in (text.params.vectors, text.params.words) if name]


def start_vectors(text: Member, texts: Texts, run: str) -> Start | None:
    """The vectors of the words of the vocabulary, and a line about how many have one; None where the table is drawn.

    Raises MissingResource for a file that is not there, UsageError for one of another ``word_dim``, IntegrityError for
    another digest than ``sha256``, and as ``core.word_vectors.read.read``.
    """
    given, params = vector_files(text), text.params
    for path in given:
        if not path.is_file():
            raise MissingResource(f"{path.absolute()}: no such file; text.{text.name}.vectors of run {run} needs it")
    if not given:
        return None
    if params.sha256:
        weights.check(given[0], params.sha256)
    assert texts.tokens is not None  # of an encoder that has a table
    places = {word: place for place, word in enumerate(texts.words) if word not in SPECIAL}
    known, found = read_word_vectors(given[0], places.keys(), *given[1:])
    if found.shape[1] != params.word_dim:
        raise UsageError(
            f"text.{text.name}.word_dim is {params.word_dim}, but {given[0]} has vectors of {found.shape[1]} dimensions; "
            f"set word_dim: {found.shape[1]} for run {run}"
        )
    rows = np.array([places[word] for word in known])
    said = texts.tokens.tokens[~np.isin(texts.tokens.tokens, [0, 1, 2])]  # <unk> is a word that was said
    share = np.isin(said, rows).mean() if len(said) else 0.0
    say(
        f"train {run}: {len(rows)} of {len(places)} words start from {given[0]}, {share:.1%} of the words of all captions"
    )
    return Start(torch.from_numpy(rows), torch.from_numpy(found), params.freeze_vectors)


@dataclass(frozen=True)
class Teacher:
    """images, captions: float16 vectors whose inner product is the weighted mean of the models' cosines, on the CPU; image_rows,
    caption_rows: those of each training pair, the image as it is shown."""

    images: Float[Tensor, "images dim"]
    captions: Float[Tensor, "captions dim"]
    image_rows: Int[Tensor, " pairs"]
    caption_rows: Int[Tensor, " pairs"]

    @classmethod
    def read(cls, folder: Path, pairs: Pairs) -> "Teacher":
        """folder: with teachers.json. Raises InputError where a pair has no vectors, IntegrityError where a model was embedded
        anew since."""
        entries = artifacts_pairs.read_teacher(folder)
        total = sum(one["weight"] for one in entries)
        shown, image_rows = np.unique(pairs.owners, return_inverse=True)
        said, caption_rows = np.unique(pairs.texts.caption_ids[pairs.places], return_inverse=True)
        sides: tuple[list[Tensor], list[Tensor]] = ([], [])
        for one in entries:
            artifacts_pairs.require_same_teacher(folder, one)
            held = Embedded.read(Path(one["folder"]), one["run"])
            for parts, side, ids in zip(sides, (held.images, held.captions), (shown, said), strict=True):
                parts.append(_unit(side, ids, held.folder) * (one["weight"] / total) ** 0.5)
        images, captions = (torch.cat(parts, dim=1).half() for parts in sides)
        return cls(images, captions, torch.from_numpy(image_rows), torch.from_numpy(caption_rows))

    def scores(self, pairs: np.ndarray, device: torch.device) -> Float[Tensor, "batch batch"]:
        """Of the images and captions of these training pairs, rows images."""
        places = torch.from_numpy(pairs)
        images = self.images[self.image_rows[places]].to(device).float()
        return images @ self.captions[self.caption_rows[places]].to(device).float().T


def _unit(side: object, ids: np.ndarray, folder: Path) -> Float[Tensor, "ids dim"]:
    """The vectors of these images or captions at unit length. Raises InputError where one has none."""
    if not isinstance(side, Side):
        raise InputError(f"{folder}: holds fragments; a teacher is compared by cosine, one vector a side")
    order = np.argsort(side.ids)
    found = order[np.searchsorted(side.ids, ids, sorter=order).clip(max=len(order) - 1)]
    missing = ids[side.ids[found] != ids]
    if len(missing):
        raise InputError(
            f"{folder}: {len(missing)} images or captions of training pairs have no vector, the first has id {missing[0]}; "
            "embed the run again, with train in embed.splits"
        )
    return functional.normalize(torch.from_numpy(side.vectors[found]), dim=1)


def input_files(node: Run) -> list[Path]:
    """The files whose digests say what the run reads."""
    inputs = [
        paths.prepared(node.dataset) / captions.NAME,
        paths.injected(node.dataset, node.noise) / artifacts_pairs.NAME,
    ]
    inputs += [paths.prepared(node.dataset) / file for file in (regions.NAME, regions.PHRASES) if _of_regions(node)]
    inputs += [paths.injected(node.dataset, node.noise) / artifacts_pairs.TEACHER] * SCHEMES.traits(
        node.scheme.name
    ).teacher
    return [*inputs, *sides(node), *vector_files(node.text)]


def sides(node: Run) -> list[Path]:
    """Those of them that tell the features and the texts."""
    named = [paths.extracted(node.dataset, name) for name in (node.features, node.texts)]
    return [folder / file for folder in named for file in (features.META, features.INDEX)]


def network(
    node: Run, source: FeatureSet, stored: features.Features, seed: int, device: torch.device
) -> PixelNetwork | None:
    """The network that the image encoder holds, if it reads pixels."""
    if IMAGE_ENCODERS.traits(node.image.name).reads != "pixels":
        return None
    return IMAGE_ENCODERS.load(node.image.name).load_network(node.features, source, stored, seed, device)


def require(node: Run, stored: features.Features) -> None:
    """Raises IntegrityError where features, texts or pairs are of other images or captions than are prepared now."""
    prepared = paths.prepared(node.dataset)
    features.require_images(stored, prepared)
    texts.require_captions(paths.extracted(node.dataset, node.texts), prepared)
    artifacts_pairs.require_for(paths.injected(node.dataset, node.noise), prepared)


def table(
    node: Run, stored: features.Features, trained: PixelNetwork | None, seed: int, device: torch.device
) -> TrainTable:
    """Everything the run reads, joined."""
    prepared, injected = paths.prepared(node.dataset), paths.injected(node.dataset, node.noise)
    words, pictures = paths.extracted(node.dataset, node.texts), None
    if trained:
        encoder = IMAGE_ENCODERS.load(node.image.name)
        drawing = encoder.Drawing.of(node.image.params, seed)
        pictures = encoder.Pictures.of(node.dataset, stored, trained.described, device, drawing)
    require(node, stored)
    shown, mentions = artifacts_pairs.read(injected), mentions_of(prepared)
    alike = node.train.same_text or mentions is not None
    said = captions.read(prepared, "train", ("caption_id", "image_id", "split", *(["text"] if alike else [])))
    return TrainTable.join(said, shown, stored, texts.read(words), pictures, node.train.same_text, mentions)


def boxes(node: Run, stored: features.Features, joined: TrainTable, name: str) -> TrainRegions | None:
    """The boxes behind the pairs, for schemes that need them. Raises InputError where there are none."""
    if not SCHEMES.traits(node.scheme.name).regions:
        return None
    folder = paths.prepared(node.dataset)
    if not _of_regions(node):
        raise InputError(
            f"train {name}: scheme '{node.scheme.name}' needs boxes, and {folder} has no {regions.NAME}; train on a data set "
            "of format regions"
        )
    known = joined.train_pairs.incidence
    assert known is not None  # of regions
    return TrainRegions.of(regions.read(folder), regions.read_phrases(folder), stored, known, name)


def _of_regions(node: Run) -> bool:
    return (paths.prepared(node.dataset) / regions.NAME).is_file()
