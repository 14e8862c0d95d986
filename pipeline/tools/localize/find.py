"""Phrases found in a photo: boxes proposed as for the run's own pictures, and the one that fits each phrase best."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from pipeline.core.console import warn
from pipeline.core.device import resolve
from pipeline.core.errors import InputError, UsageError
from pipeline.core.unknown import unknown
from pipeline.pictures import images
from pipeline.pictures.address import Box
from pipeline.pictures.images import Item
from pipeline.prepare.engine.regions.proposing import Seen, settled
from pipeline.project.params.typed import Params
from pipeline.project.registry import PROPOSALS, SIMILARITIES
from pipeline.tools.search import together
from pipeline.tools.search.network import Network

# Of boxes that somebody computed elsewhere there are none for a photo.
_GIVEN = "file"


@dataclass(frozen=True)
class FoundBox:
    """The best of ``candidates`` boxes. score: its similarity to the phrase; larger is closer; unknown, notes: of its words."""

    phrase: str
    box: Box
    score: float
    candidates: int
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


def find(params: Params, run: str, content: bytes, name: str, phrases: list[str], device: str) -> list[FoundBox]:
    """content, name: of the photo's file. Raises UsageError for an unknown run, one of whole pictures or fragments, and
    proposals from a file; InputError for a photo that does not decode, and a phrase without a word that the run knows."""
    if run not in params.runs:
        raise UsageError(unknown("run", run, params.runs))
    node = params.runs[run]
    if SIMILARITIES.traits(node.similarity.name).fragments:
        raise UsageError(f"run '{run}' compares fragments of pictures ({node.similarity.name}); a box is one vector")
    images.decode(content, name)
    network = together.open_run(params, run, "test", resolve(device))
    if isinstance(network, together.Together):
        warn(f"localize {run}: of the run's two networks the first alone is asked")
        network = network.parts[0]
    assert isinstance(network, Network)  # a run of one network or two; ensembles have no entry under runs
    asked = [network.sentence(phrase) for phrase in phrases]
    boxes = _proposed(params, node.dataset, content, name, device)
    seen = network.photo(content, name, boxes).side
    similarity = network.similarity()
    scores = torch.cat([similarity(seen, one.side) for one in asked], dim=1)
    if not scores.isfinite().all():
        raise InputError("the model gives scores that are not finite for this photo")
    values, places = scores.max(dim=0)
    return [
        FoundBox(phrase, boxes[place], value, len(boxes), one.unknown, one.notes)
        for phrase, place, value, one in zip(phrases, places.tolist(), values.tolist(), asked, strict=True)
    ]


def _proposed(params: Params, dataset: str, content: bytes, name: str, device: str) -> list[Box]:
    about = params.datasets[dataset].format
    if about.name != "regions":
        raise UsageError(f"data set '{dataset}' is no data set of regions: nothing says which boxes to propose")
    own = about.params
    if own.proposals == _GIVEN:
        raise UsageError(f"the proposals of data set '{dataset}' are read from a file, which has none for a photo")
    options = PROPOSALS.options(own.proposals).Params.model_validate(own.options)
    proposer = PROPOSALS.load(own.proposals).proposer(options, own.count, params.seed, device)
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
        (Path(folder) / "photo").write_bytes(content)
        item = Item(0, "photo", hashlib.sha256(content).hexdigest(), name)
        seen = Seen(Path(folder), item, *images.upright_size(Path(folder), item))
        found = settled(proposer(seen), seen, own.count).boxes.astype(int).tolist()
    return [Box(x1, y1, x2 - x1 + 1, y2 - y1 + 1) for x1, y1, x2, y2 in found]
