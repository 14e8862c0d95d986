"""Proposals that lie nearer to a phrase than its ground truth in the same picture."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import track
from vse_pipe.ranking.engine.boxes import iou
from vse_pipe.train.engine import encode
from vse_pipe.train.engine.data import Pairs
from vse_pipe.train.engine.groups import Groups
from vse_pipe.train.engine.model import DualEncoder
from vse_pipe.train.engine.regions import TrainRegions

# Proposals that are encoded and compared at once; one picture may have more.
_AT_ONCE = 4096


@dataclass(frozen=True)
class Mined:
    """texts: number of the text each is a negative of, rising; rows: feature rows."""

    texts: Int[ndarray, " mined"]
    rows: Int[ndarray, " mined"]

    def draw(self, texts: Int[ndarray, " texts"], each: int, rng: np.random.Generator) -> Int[ndarray, " drawn"]:
        """Places of up to ``each`` random ones of each of ``texts``, in their order."""
        count = int(max(texts.max(initial=-1), self.texts.max(initial=-1))) + 1
        starts = np.searchsorted(self.texts, np.arange(count + 1))
        return Groups(self.texts, np.arange(len(self.texts)), starts).draw(texts, each, rng)


def mine(
    model: DualEncoder,
    pairs: Pairs,
    regions: TrainRegions,
    most: int,
    limit: float | None,
    device: torch.device,
    rng: np.random.Generator,
    at_once: int = _AT_ONCE,
) -> Mined:
    """Up to ``most`` of the proposals of each text that are nearer to it than its nearest ground truth of the same picture.

    pairs: with ``incidence``; limit: the IoU with a ground truth of the text from which a proposal is left out, None for
    none. at_once: proposals in memory, with the regions and phrases of their pictures; what is found takes 12 bytes each.

    Source: Wang et al., CVPR 2016, section 3.3; which pictures count and what "closer than the ground truth boxes"
    means for several is not said there.
    """
    assert pairs.incidence is not None
    blocks = list(_blocks(regions.pictures[pairs.incidence.images], regions, at_once))
    found = [
        _mined(model, _Block.of(pairs, regions, chosen, limit), pairs, device)
        for chosen in track(blocks, len(blocks), "hard negatives")
    ]
    texts, rows = (np.concatenate(side) for side in zip(*found, strict=True))
    numbers, groups = np.unique(texts), Groups.of(texts)
    kept = groups.draw(np.arange(len(numbers)), most, rng)
    return Mined(texts[kept], rows[kept])


def _blocks(shown: ndarray, regions: TrainRegions, at_once: int) -> Iterator[tuple[ndarray, slice]]:
    """Pairs, and proposals, of consecutive pictures that have both. shown: the picture of each pair."""
    order = np.argsort(shown, kind="stable")
    pictures, starts, counts = np.unique(regions.proposed_in, return_index=True, return_counts=True)
    first = np.searchsorted(shown, pictures, side="left", sorter=order)
    last = np.searchsorted(shown, pictures, side="right", sorter=order)
    number = 0
    while number < len(pictures):
        end = max(number + 1, int(np.searchsorted(starts + counts, starts[number] + at_once, side="right")))
        yield order[first[number] : last[end - 1]], slice(int(starts[number]), int(starts[end - 1] + counts[end - 1]))
        number = end


@dataclass(frozen=True)
class _Block:
    """Some pictures. A mention is a text in one of them: texts, of the text's number, places, where it stands in ``Pairs.texts``;
    proposals, truths: feature rows; open: whether a proposal may be a negative of a mention; matching: ground truths of it."""

    texts: Int[ndarray, " mentions"]
    places: Int[ndarray, " mentions"]
    proposals: Int[ndarray, " proposals"]
    truths: Int[ndarray, " truths"]
    open: Bool[Tensor, "proposals mentions"]
    matching: Bool[Tensor, "truths mentions"]

    @classmethod
    def of(cls, pairs: Pairs, regions: TrainRegions, chosen: tuple[ndarray, slice], limit: float | None) -> "_Block":
        shown, proposed = chosen
        known = pairs.incidence
        assert known is not None
        said = np.stack([regions.pictures[known.images[shown]], known.texts[shown]])
        (pictures, texts), first = np.unique(said, axis=1, return_index=True)
        # All that belong to the text, in pairs or not; of those in pairs alone there are features.
        named = np.flatnonzero(np.isin(regions.pictures, pictures))
        belong = (known.by_image[named][:, texts].toarray() > 0) & (
            regions.pictures[named][:, None] == pictures[None, :]
        )
        matching = torch.from_numpy(belong)
        there = torch.from_numpy(regions.proposed_in[proposed][:, None] == pictures[None, :])
        if limit is not None:
            boxes = torch.from_numpy(regions.proposals[proposed]), torch.from_numpy(regions.boxes[named])
            there &= ((iou(*boxes) >= limit).float() @ matching.float()) == 0
        images, its_first = np.unique(known.images[shown], return_index=True)
        matching = matching[torch.from_numpy(np.searchsorted(named, images))]
        truths = pairs.rows[shown[its_first]]
        return cls(texts, pairs.places[shown[first]], regions.rows[proposed], truths, there, matching)


def _mined(model: DualEncoder, block: _Block, pairs: Pairs, device: torch.device) -> tuple[ndarray, ndarray]:
    """(found,) numbers of texts, int32, and feature rows."""
    seen = encode.images(model, pairs.array, np.concatenate([block.proposals, block.truths]), device)
    read = encode.captions(model, pairs.texts, block.places, device)
    assert isinstance(read, Tensor)
    with encode.evaluating(model):
        scores = model.score(seen.to(device), read.to(device)).cpu()
    proposals, truths = scores.split([len(block.proposals), len(block.truths)])
    nearest = truths.masked_fill(~block.matching, -torch.inf).amax(dim=0)
    place, mention = ((proposals > nearest) & block.open).nonzero(as_tuple=True)
    return block.texts[mention.numpy()].astype(np.int32), block.proposals[place.numpy()]
