"""The most doubtful pairs as findings, with a picture that suits each caption better."""

import numpy as np
import pandas as pd
import pyarrow as pa

from vse_pipe.artifacts import decisions
from vse_pipe.audit.doubts import linear
from vse_pipe.audit.evidence import Doubts
from vse_pipe.audit.pairs import JudgedPairs
from vse_pipe.audit.pool import blocks

# Pairs of findings: those that are probably wrong, within these numbers, unless ``limit`` says
# otherwise.
PROBABLE, FEWEST, MOST = 0.5, 100, 50_000
# Images that all of these are compared with at once: 100 MiB of scores.
_TILE = 512


def findings(doubts: Doubts, judged: JudgedPairs, image_table: pa.Table, limit: int | None) -> pd.DataFrame:
    """The rows of kind ``pair``, the most doubtful first. limit: their number; None: the pairs that
    are probably wrong.

    The proposal is ``picture`` where an image suits the caption better
    than its own, that caption suits the image best of all these, and better than most pairs suit
    each other; else ``drop``."""
    pool = judged.pool
    order = np.argsort(-doubts.odds, kind="stable")
    if limit is None:
        limit = int(np.clip((doubts.probability >= PROBABLE).sum(), FEWEST, MOST))
    places, image_count = order[:limit], len(pool.images)
    predict = linear.predictors(pool)[0]
    parts = [
        np.einsum("rd,rd->r", predict(rows), pool.images[pool.owners[rows]])
        for rows in blocks(np.arange(len(pool.owners)))
    ]
    fits, predicted = np.concatenate(parts), predict(places)
    best, partner = np.full(len(places), -np.inf, np.float32), np.full(len(places), -1)
    better, suits = np.zeros(len(places), np.int64), np.full(image_count, -1)
    for images in blocks(np.arange(image_count if len(places) else 0), _TILE):
        scores = predicted @ pool.images[images].T
        scores[pool.owners[places, None] == images] = -np.inf
        better += (scores > fits[places, None]).sum(axis=1)
        suits[images] = scores.argmax(axis=0)
        partner = np.where(scores.max(axis=1) > best, images[scores.argmax(axis=1)], partner)
        best = np.maximum(best, scores.max(axis=1))
    is_right = doubts.probability < PROBABLE
    usual = np.median(fits[is_right] if is_right.any() else fits)
    mutual = (suits[partner] == np.arange(len(places))) & (best > usual)
    shares = (better / image_count).tolist()
    columns = {
        "kind": "pair",
        "id": judged.caption_ids[places],
        "doubt": doubts.probability[places].round(4),
        "why": [f"the caption suits {share:.0%} of the pictures better" for share in shares],
        "proposal": np.where(mutual, "picture", "drop"),
        "other": judged.image_ids[partner],
    }
    captions = {"caption_id": judged.caption_ids, "image_id": judged.image_of_pairs, "text": judged.texts}
    return decisions.described(pd.DataFrame(columns), image_table, pa.table(captions))
