"""How well losses and probabilities tell mismatched pairs from matched ones, and the losses as a histogram."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from sklearn.metrics import average_precision_score
from torch import Tensor

from vse_pipe.core import workers
from vse_pipe.train.batch import Matches, Scored, sample_losses
from vse_pipe.train.mixture import BetaMixture

BINS = 50


def average_precision(values: Float[ndarray, " pairs"], mismatched: Bool[ndarray, " pairs"]) -> float | None:
    """Sum over the values, from the highest, of the precision at each times the gain in recall; equal values enter
    together. None where nothing is mismatched."""
    if not mismatched.any():
        return None
    return float(average_precision_score(mismatched, values))


def ranked(
    losses: Float[ndarray, " pairs"],
    probability: Float[ndarray, " pairs"],
    mismatched: Bool[ndarray, " pairs"] | None,
) -> list[dict]:
    """How many of the first 10, 100, 1,000, ... pairs by loss, the highest first, are mismatched: ``first``, ``estimated``
    (the mean of their probabilities) and ``precision`` (None where nobody knows the truth). Of equal losses the earlier
    pair comes first."""
    order = np.argsort(-losses, kind="stable")
    sizes = [10**power for power in range(1, 10) if 10**power < len(losses)] or [len(losses)]
    return [
        {
            "first": size,
            "estimated": float(probability[order[:size]].mean()),
            "precision": None if mismatched is None else float(mismatched[order[:size]].mean()),
        }
        for size in sizes
    ]


def at_threshold(
    probability: Float[ndarray, " pairs"], mismatched: Bool[ndarray, " pairs"], threshold: float
) -> tuple[float | None, float | None]:
    """Precision and recall of calling a pair mismatched when its probability is above ``threshold``; None where the
    denominator is 0."""
    flagged = probability > threshold
    hits = int((flagged & mismatched).sum())
    return (
        hits / int(flagged.sum()) if flagged.any() else None,
        hits / int(mismatched.sum()) if mismatched.any() else None,
    )


def histogram(
    losses: Float[ndarray, " pairs"], mixture: BetaMixture, mismatched: Bool[ndarray, " pairs"] | None
) -> pd.DataFrame:
    """BINS equal bins from the smallest loss to the largest: low, high, pairs; matched and mismatched, empty where the
    truth is unknown; expected_matched and expected_mismatched, the pairs that each component of the mixture puts there
    (its density in the middle of the bin), empty where there was nothing to split.

    The mixture lives on losses scaled to 0..1. Equal losses make one bin.
    """
    low, high = float(losses.min()), float(losses.max())
    bins = BINS if high > low else 1
    edges = np.linspace(low, high, bins + 1)
    edges[-1] = high
    # The bin is found once, so that the counts of both kinds add up.
    at = np.clip(np.searchsorted(edges, losses, "right") - 1, 0, bins - 1)
    table = pd.DataFrame({"low": edges[:-1], "high": edges[1:], "pairs": np.bincount(at, minlength=bins)})
    for name, kind in (("matched", False), ("mismatched", True)):
        chosen = None if mismatched is None else np.bincount(at[mismatched == kind], minlength=bins)
        table[name] = pd.array([None] * bins if chosen is None else chosen, dtype="Int64")
    expected = np.full((2, bins), np.nan)
    if bins > 1 and np.isfinite(mixture.alpha).all():
        middle = (np.arange(bins) + 0.5) / bins
        expected = mixture.density(middle) * len(losses) / bins
    table["expected_matched"], table["expected_mismatched"] = expected
    return table


def chosen(
    probability: Float[ndarray, " pairs"], losses: Float[ndarray, " pairs"], images: Int[ndarray, " pairs"], limit: int
) -> Int[ndarray, " chosen"]:
    """Places of the ``limit`` most suspect pairs, the most probable mismatch first, then the larger loss, then the
    earlier pair; one of each image, or the five captions of one wrong picture would fill the page."""
    order = np.lexsort((np.arange(len(losses)), -losses, -probability))
    _, first = np.unique(images[order], return_index=True)
    return order[np.sort(first)[:limit]]


# Scores held at once by ``search``: 64 MiB of float32.
_CELLS = 1 << 24
# Of a block, that are alive at once.
_COPIES = 3
# Below this, sums of float32 differ by the order of their terms alone, and the mixture would split equal losses by it.
_DECIMALS = 6

Score = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Partners:
    """For each pair: another pair's caption for its image and another pair's image for its caption, by the place of that
    pair, with the similarities. -1 and -inf where every pair compared shows the same image."""

    caption: Int[ndarray, " pairs"]
    caption_score: Float[ndarray, " pairs"]
    image: Int[ndarray, " pairs"]
    image_score: Float[ndarray, " pairs"]

    @classmethod
    def none(cls, pairs: int) -> "Partners":
        places, scores = np.full(pairs, -1), np.full(pairs, -np.inf, np.float32)
        return cls(places, scores, places.copy(), scores.copy())


@dataclass(frozen=True)
class Measured:
    """losses: see ``measure``; scores: similarity of each image and its caption."""

    losses: Float[ndarray, " pairs"]
    scores: Float[ndarray, " pairs"]
    partners: Partners


def batches(pairs: int, size: int, rng: np.random.Generator) -> list[ndarray]:
    """All pairs in random order, in batches of nearly equal size, ``size`` at most and never 1 (for pairs, size >= 3)."""
    return np.array_split(rng.permutation(pairs), max(1, -(-pairs // size)))


def measure(
    encode: Callable[[ndarray], tuple],
    score: Score,
    owners: Int[ndarray, " pairs"],
    work: Sequence[ndarray],
    matches: Callable[[ndarray, torch.device], Matches | None] = lambda pairs, device: None,
    progress: Callable[[Iterable], Iterable] = iter,
) -> Measured:
    """Loss, similarity and partners of every pair within its batch.

    encode: pairs to what ``score`` takes of their images and captions; owners: the image that each pair shows; work:
    batches that hold each pair once; matches: what else belongs together in a batch, as of ``Pairs.matches``; progress: sees what
    each batch gave. The loss is L2RM's (Han et al., CVPR 2024, Eq. 4, as its code has it), except that
    captions shown with the same image are no negatives of each other and that the mean is over negatives alone: with
    few images a batch holds several captions of one, and a pair's loss would tell how many. It depends on which pairs
    share a batch.
    """

    def of_batch(pairs: ndarray) -> tuple[ndarray, ...]:
        found = score(*encode(pairs))
        owner = torch.from_numpy(owners[pairs]).to(found.device)
        batch = Scored.from_scores(found, owner, mask_same_image=True, matches=matches(pairs, found.device))
        negatives = (~batch.same).sum(dim=1).clamp_min(1)
        mean = sample_losses(batch).double() * len(pairs) / negatives
        own = mean.cpu().numpy().round(_DECIMALS), found.diagonal().float().cpu().numpy()
        others = found.float().masked_fill(batch.same, -torch.inf)
        return *own, *_best(others, pairs), *_best(others.T, pairs)

    losses, scores = np.empty(len(owners)), np.empty(len(owners), np.float32)
    partners = Partners.none(len(owners))
    into: tuple[ndarray, ...] = (
        losses,
        scores,
        partners.caption,
        partners.caption_score,
        partners.image,
        partners.image_score,
    )
    for pairs, found in zip(work, progress(workers.each(partial(map, of_batch), work)), strict=True):
        for column, values in zip(into, found, strict=True):
            column[pairs] = values
    return Measured(losses, scores, partners)


def _best(found: Tensor, among: ndarray) -> tuple[ndarray, ndarray]:
    """Of each row which of ``among`` has the largest value, -1 where all are -inf, and the value."""
    best, column = (side.cpu().numpy() for side in found.max(dim=1))
    return np.where(np.isneginf(best), -1, among[column]), best


def search(
    images: Float[Tensor, "images dim"],
    texts: Float[Tensor, "pairs dim"],
    shows: Int[ndarray, " pairs"],
    score: Score,
    cells: int = _CELLS,
    progress: Callable[[Iterable, int], Iterable] = lambda blocks, total: blocks,
    belong: tuple[Int[ndarray, " cells"], Int[ndarray, " cells"]] | None = None,
) -> Partners:
    """Partners among all training pairs, for models that compare vectors.

    images: each image once; shows: the row of ``images`` that each pair shows. Every image is scored against every caption
    once, ``cells`` scores at a time (one row at least). Of equal scores the first caption and the first image win;
    ``image`` is a pair that shows the image. progress: sees what each block gave, and how many there are. belong: rows of ``images`` and texts that
    are no partners, being known together; without, those of the pairs.
    """
    shown, said = (torch.from_numpy(side).to(texts.device) for side in belong or (shows, np.arange(len(shows))))
    caption, caption_score = np.full(len(images), -1), np.full(len(images), -np.inf, np.float32)
    best = torch.full((len(texts),), -torch.inf, device=texts.device)
    where = torch.full((len(texts),), -1, device=texts.device)
    height = max(1, cells // max(1, len(texts)))
    blocks = [slice(start, min(start + height, len(images))) for start in range(0, len(images), height)]

    def of_block(rows: slice) -> tuple[ndarray, ndarray, Tensor, Tensor]:
        found = score(images[rows], texts).float()
        inside = ((shown >= rows.start) & (shown < rows.stop)).nonzero()[:, 0]
        found[shown[inside] - rows.start, said[inside]] = -torch.inf
        return *_best(found, np.arange(len(texts))), *found.max(dim=0)

    made = workers.each(partial(map, of_block), blocks, _COPIES * 4 * height * len(texts))
    for rows, (*best_captions, highest, row) in zip(blocks, progress(made, len(blocks)), strict=True):
        caption[rows], caption_score[rows] = best_captions
        better = highest > best
        best = torch.where(better, highest, best)
        where = torch.where(better, row + rows.start, where)
    first = np.full(len(images), -1)
    first[shows[::-1]] = np.arange(len(shows))[::-1]
    place = where.cpu().numpy()
    image = np.where(place < 0, -1, first[place])
    return Partners(caption[shows], caption_score[shows], image, best.cpu().numpy())
