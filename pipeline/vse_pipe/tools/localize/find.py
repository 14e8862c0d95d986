"""Phrases found in a photo: boxes proposed as for the run's own pictures, and the one that fits each phrase best."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from vse_pipe.core.console import warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError
from vse_pipe.pictures.address import Box
from vse_pipe.prepare.regions import Seen, settled
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import PROPOSALS
from vse_pipe.tools.localize.photo import Photo
from vse_pipe.tools.search.network import Network, Together, open_run


@dataclass(frozen=True)
class FoundBox:
    """The best of ``candidates`` boxes. score: its similarity to the phrase; larger is closer; unknown, notes: of its words."""

    phrase: str
    box: Box
    score: float
    candidates: int
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


def find(params: Params, run: str, photo: Photo, phrases: Sequence[str], device: str) -> list[FoundBox]:
    """run: one that ``question.check`` lets pass. Raises InputError for a phrase without a word that the run knows, and where no
    box is proposed."""
    network = open_run(params, run, "test", resolve_device(device))
    if isinstance(network, Together):
        warn(f"localize {run}: of the run's two networks the first alone is asked")
        network = network.parts[0]
    assert isinstance(network, Network)  # a run of one network or two; ensembles have no entry under runs
    asked = [network.sentence(phrase) for phrase in phrases]
    boxes = _proposed(params, params.runs[run].dataset, photo, device)
    seen = network.boxes(photo.folder, [photo.item(box) for box in boxes])
    similarity = network.similarity()
    scores = torch.cat([similarity(seen, one.side) for one in asked], dim=1)
    if not scores.isfinite().all():
        raise InputError("the model gives scores that are not finite for this photo")
    values, places = scores.max(dim=0)
    return [
        FoundBox(phrase, boxes[place], value, len(boxes), one.unknown, one.notes)
        for phrase, place, value, one in zip(phrases, places.tolist(), values.tolist(), asked, strict=True)
    ]


def _proposed(params: Params, dataset: str, photo: Photo, device: str) -> list[Box]:
    own = params.datasets[dataset].format.params
    options = PROPOSALS.options(own.proposals).model_validate(own.options)
    proposer = PROPOSALS.load(own.proposals).proposer(options, own.count, params.seed, device)
    seen = Seen(photo.folder, photo.item(), *photo.picture.size)
    found = settled(proposer(seen), seen, own.count).boxes.astype(int).tolist()
    return [Box(x1, y1, x2 - x1 + 1, y2 - y1 + 1) for x1, y1, x2, y2 in found]
