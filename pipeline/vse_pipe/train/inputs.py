"""The inputs of a run: word vectors, teachers, features, texts and pairs."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.artifacts import captions, features, identity, regions, texts
from vse_pipe.artifacts import pairs as artifacts_pairs
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import weights
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.core.text import SPECIAL
from vse_pipe.core.word_vectors import read_word_vectors
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SCHEMES, TEXT_ENCODERS
from vse_pipe.train.data import TrainTable
from vse_pipe.train.model import network_holder

if TYPE_CHECKING:
    from vse_pipe.train.pictures import PixelNetwork


def word_file(text: Member) -> Path | None:
    """The file of word vectors of the encoder; None where its table is drawn. Raises
    MissingResource for a missing file."""
    if not TEXT_ENCODERS.traits(text.name).vectors or text.params.vectors is None:
        return None
    path = Path(text.params.vectors).expanduser()
    if not path.is_file():
        raise MissingResource(f"{path.absolute()}: no such file; text.{text.name}.vectors needs it")
    return path


def word_vectors(text: Member, texts: Texts) -> tuple[Int[Tensor, " known"], Float[Tensor, "known dim"]] | None:
    """Places in the vocabulary, and the first vectors of their words; None where the table is
    drawn. Logs how many words have a vector.

    Raises UsageError for another width than ``word_dim``, IntegrityError for another digest than
    ``sha256``, and the errors of ``word_file`` and ``core.word_vectors.read_word_vectors``.
    """
    path, params = word_file(text), text.params
    if path is None:
        return None
    if params.sha256:
        weights.check(path, params.sha256)
    places = {word: place for place, word in enumerate(texts.words) if word not in SPECIAL}
    words, vectors = read_word_vectors(path, places.keys())
    dim = vectors.shape[1]
    if dim != params.word_dim:
        raise UsageError(
            f"text.{text.name}.word_dim is {params.word_dim}, but {path} has vectors of {dim} dimensions; "
            f"set word_dim: {dim}"
        )
    say(f"{len(words)} of {len(places)} words start from {path}")
    return torch.tensor([places[word] for word in words]), torch.from_numpy(vectors)


def feature_folders(node: Run) -> list[Path]:
    """The folders of the run's features and texts."""
    return [paths.extracted(node.dataset, name) for name in (node.features, node.texts)]


def identities(folders: Iterable[Path]) -> identity.Inputs:
    """What these folders hold now, as inputs of a model. Raises IntegrityError where they do not
    belong to the prepared images and captions."""
    read: identity.Inputs = {}
    for folder in folders:
        identity.require_current(folder)
        read |= identity.parts_of(folder)
    return read


def further_inputs(node: Run) -> identity.Inputs:
    """What a training reads beside features, texts and pairs, for its fingerprint: the data set,
    vectors of teachers and of words."""
    # The whole data set, regions too, in place of the parts that the pairs were made from.
    read = identity.inputs_of(paths.injected(node.dataset, node.noise))
    read |= identity.parts_of(paths.prepared(node.dataset))
    words = word_file(node.text)
    return read if words is None else read | {str(words): {"file": sha256(words)}}


def trained_on(node: Run, run: str) -> tuple[features.Features, Texts]:
    """The features and texts of a trained run. Raises IntegrityError unless the run was trained on
    them and they belong to the present images and captions."""
    places = feature_folders(node)
    identities(places)
    identity.require_current(paths.trained(run), places=places)
    return features.read(places[0]), texts.read(places[1])


def network(params: Params, node: Run, stored: features.Features) -> "PixelNetwork | None":
    """The network of encoders that hold the one behind the features; None for others. Random
    weights follow from the project's seed; all else of a run from the run's."""
    if holder := network_holder(node.image, node.text):
        return holder.network(node.features, params.features[node.features], stored.meta, params.seed)
    return None


def table(
    node: Run, stored: features.Features, treated: Texts, backbone: dict | None, device: torch.device
) -> TrainTable:
    """The pairs of the run, joined with its features and texts. backbone: as of ``Pictures.join``,
    for image encoders that read pixels. Raises InputError where pairs have weights between 0 and 1
    that the run would not heed."""
    prepared, pictures = paths.prepared(node.dataset), None
    # Other runs do not depend on the code that reads pictures.
    if backbone is not None and IMAGE_ENCODERS.traits(node.image.name).reads == "pixels":
        member = IMAGE_ENCODERS.load(node.image.name)
        pictures = member.pictures(node.dataset, stored, backbone, device, node.image.params, node.seed)
    mentions = regions.read_phrases(prepared) if (prepared / regions.NAME).is_file() else None
    columns = ["caption_id", "image_id", "split", *(["text"] if mentions is not None else [])]
    joined = TrainTable.join(
        captions.read(prepared, "train", columns),
        artifacts_pairs.read(paths.injected(node.dataset, node.noise)),
        stored,
        treated,
        pictures,
        mentions,
    )
    heeds = "targets" in LOSSES.traits(node.loss.name).takes and SCHEMES.traits(node.scheme.name).weighs
    if joined.train_pairs.trust is not None and not heeds:
        raise InputError(
            f"pairs of noise '{node.noise}' have weights between 0 and 1, which loss "
            f"'{node.loss.name}' under scheme '{node.scheme.name}' does not take; decide keep or drop"
        )
    return joined
