"""What a run reads: its files, and what they hold, joined."""

from pathlib import Path

import torch

from vse_pipe.artifacts import captions, features, pairs, regions, texts
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, SCHEMES
from vse_pipe.train.engine import word_vectors
from vse_pipe.train.engine.pixels import PixelNetwork
from vse_pipe.train.engine.regions import TrainRegions
from vse_pipe.train.engine.table import TrainTable, mentions_of


def files(node: Run) -> list[Path]:
    """The files whose digests say what the run reads."""
    inputs = [paths.prepared(node.dataset) / captions.NAME, paths.injected(node.dataset, node.noise) / pairs.NAME]
    inputs += [paths.prepared(node.dataset) / file for file in (regions.NAME, regions.PHRASES) if _of_regions(node)]
    inputs += [paths.injected(node.dataset, node.noise) / pairs.TEACHER] * SCHEMES.traits(node.scheme.name).teacher
    return [*inputs, *sides(node), *word_vectors.files(node.text)]


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
    pairs.require_for(paths.injected(node.dataset, node.noise), prepared)


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
    shown, mentions = pairs.read(injected), mentions_of(prepared)
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
