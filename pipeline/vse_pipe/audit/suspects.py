"""The most doubtful pairs as findings, with a picture that suits each caption better, and what reviewing them is worth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import decisions
from vse_pipe.audit import evidence
from vse_pipe.audit.doubts import linear
from vse_pipe.audit.doubts.options import LinearOptions
from vse_pipe.audit.pairs import JudgedPairs
from vse_pipe.ranking.recall import Truth, hits_at, positions, recall

# Pairs of findings: those that are probably wrong, within these numbers, unless ``limit`` says otherwise.
PROBABLE, FEWEST, MOST = 0.5, 100, 50_000
# Points of the curve of reviewing, in shares of the pairs that are probably wrong.
_REVIEWED = (0, 0.25, 0.5, 0.75, 1, 1.5, 2)


@dataclass(frozen=True)
class Suspects:
    """The most doubtful pairs, the worst first. places: of pairs in the pool; partner: row of the image that suits the
    caption best, other than its own; mutual: of these captions, that one suits the image best too, and better than
    most pairs suit each other; share: of images that suit the caption better than its own."""

    places: Int[ndarray, " suspects"]
    partner: Int[ndarray, " suspects"]
    mutual: Bool[ndarray, " suspects"]
    share: Float[ndarray, " suspects"]


def suspects(pool: evidence.PairPool, doubts: evidence.Doubts, limit: int | None) -> Suspects:
    """limit: their number; None: the pairs that are probably wrong."""
    order = _open_pairs(doubts)
    if limit is None:
        limit = int(np.clip((doubts.probability[order] >= PROBABLE).sum(), FEWEST, MOST))
    places = order[:limit]
    predict = linear.predictions(pool, LinearOptions(), "texts")
    fits, image_count, predicted = _fits(pool, predict), len(pool.images), predict(places)
    winner, partner = np.full(len(places), -np.inf, np.float32), np.full(len(places), -1)
    better, suits = np.zeros(len(places), np.int64), np.full(image_count, -1)
    for tile in pool.blocks(np.arange(image_count)):
        vectors, best = pool.image_vectors(tile), np.full(len(tile), -np.inf, np.float32)
        for block in pool.blocks(np.arange(len(places))):
            scores = predicted[block] @ vectors.T
            owners = pool.owners[places[block]] - tile[0]
            inside = np.flatnonzero((owners >= 0) & (owners < len(tile)))
            scores[inside, owners[inside]] = -np.inf
            better[block] += (scores > fits[places[block], None]).sum(axis=1)
            _raise(winner[block[0] : block[-1] + 1], partner[block[0] : block[-1] + 1], scores, tile)
            _raise(best, suits[tile[0] : tile[-1] + 1], scores.T, block)
    is_right = doubts.probability < PROBABLE
    usual = np.median(fits[is_right] if is_right.any() else fits)
    mutual = (suits[partner] == np.arange(len(places))) & (winner > usual)
    return Suspects(places, partner, mutual, better / image_count)


def _open_pairs(doubts: evidence.Doubts) -> ndarray:
    """The pairs on which nobody decided, the most doubtful first."""
    order = np.argsort(-doubts.odds, kind="stable")
    return order[doubts.verdicts[order] == 0]


def _raise(best: ndarray, places: ndarray, scores: ndarray, candidates: ndarray) -> None:
    """Put the best score of each row into ``best`` where it is higher, and its candidate into ``places``."""
    highest = scores.max(axis=1)
    rows = np.flatnonzero(highest > best)
    best[rows] = highest[rows]
    places[rows] = candidates[scores[rows].argmax(axis=1)]


def _fits(pool: evidence.PairPool, predict: Callable[[ndarray], ndarray]) -> Float[ndarray, " pairs"]:
    """The similarity of each pair in the space of images."""
    rows = pool.blocks(np.arange(len(pool.owners)))
    return np.concatenate(
        [np.einsum("rd,rd->r", predict(block), pool.image_vectors(pool.owners[block])) for block in rows]
    )


def findings(
    suspects: Suspects, doubts: evidence.Doubts, judged: JudgedPairs, image_table: pa.Table, texts: pa.Array
) -> pd.DataFrame:
    """The rows of kind ``pair``, the most doubtful first. texts: of the captions of ``judged``."""
    captions = judged.captions
    rows = pd.DataFrame(
        {
            "kind": "pair",
            "id": captions.ids[suspects.places],
            "doubt": doubts.probability[suspects.places].round(4),
            "why": [f"the caption suits {share:.0%} of the pictures better" for share in suspects.share.tolist()],
            "proposal": np.where(suspects.mutual, "picture", "drop"),
            "other": judged.images.ids[suspects.partner],
        }
    )
    caption_table = pa.table({"caption_id": captions.ids, "image_id": captions.image_ids, "text": texts})
    return decisions.described(rows, image_table, caption_table)


def reviewed(
    pool: evidence.PairPool, doubts: evidence.Doubts, mismatched: ndarray | None, validation: JudgedPairs | None
) -> pd.DataFrame:
    """What reviewing the first pairs by doubt finds: ``expected`` by the probabilities, ``found`` in truth, ``left``
    mismatches after it, and the ``rsum`` on val of linear maps that are learnt from the pairs that then stay.

    Where the truth is unknown, a reviewer is assumed to drop each pair by its probability."""
    order = _open_pairs(doubts)
    wrong = doubts.probability if mismatched is None else mismatched
    total = max(round(doubts.number()[0]), 1)
    records = []
    for count in sorted({min(round(share * total), len(order)) for share in _REVIEWED}):
        first, rest = order[:count], order[count:]
        trust = (doubts.verdicts >= 0).astype(np.float32)
        trust[first] = 1 - wrong[first]
        expected, hits = float(doubts.probability[first].sum()), int(wrong[first].sum())
        left, rsum = round(float(wrong[rest].sum()), 1), _linear_rsum(pool, trust, validation)
        records.append((count, round(expected, 1), None if mismatched is None else hits, left, rsum))
    table = pd.DataFrame(records, columns=artefact.REVIEW_COLUMNS)
    return table.astype({"found": "Int64"})


def _linear_rsum(pool: evidence.PairPool, trust: ndarray, validation: JudgedPairs | None) -> float | None:
    """rsum on val of a ridge map from captions to images, learnt from ``pool``; None without val."""
    if validation is None:
        return None
    queries = evidence.unit(validation.captions.vectors @ linear.whole_map(pool, trust, LinearOptions()))
    scores, items = queries @ validation.images.vectors.T, np.arange(len(validation.images.ids))
    ways = (scores, Truth.by_image(validation.owners, items)), (scores.T, Truth.by_image(items, validation.owners))
    return round(sum(recall(hits_at(_ranks(block, truth), k)) for block, truth in ways for k in (1, 5, 10)), 4)


def _ranks(scores: ndarray, truth: Truth) -> ndarray:
    strip = torch.from_numpy(np.ascontiguousarray(scores))
    return positions(strip, slice(0, len(scores)), truth, "pessimistic")[truth.starts[:-1]]
