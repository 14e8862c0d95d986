"""Shuffle over captions: every caption once an epoch, with its image (vsepp and its descendants)."""

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from pipeline.core.strict import Strict
from pipeline.train.engine.groups import Groups


class Params(Strict):
    extra_positives: NonNegativeInt = 0
    """further captions added for each image of a batch, as structure-preserving training needs them (one)"""
    bucket: PositiveInt = 1
    """batches that are filled from one pool sorted by caption length; 1 leaves the order fully random"""


def batches(
    owners: np.ndarray, lengths: np.ndarray, size: int, params: Params, rng: np.random.Generator
) -> list[np.ndarray]:
    """Positions of the pairs of each batch of one epoch. owners: (pairs,) image of each pair; lengths: (pairs,) words.

    Two captions of one image may meet in a batch, as in the authors' code (``train.mask_same_image`` keeps them from being
    negatives of each other). A last batch of one pair is left out: it has no negative. ``extra_positives`` come on top
    of ``size``: random captions of the batch's images that are not in it yet, as many as there are (Wang et al. 2016,
    section 3.1). With ``bucket`` the batches of a pool hold captions of like length and come in random order.
    """
    order = rng.permutation(len(owners))
    if params.bucket > 1:
        order = _by_length(order, lengths, size, params.bucket, rng)
    found = [order[start : start + size] for start in range(0, len(order), size)]
    found = [chosen for chosen in found if len(chosen) > 1]
    if params.extra_positives:
        groups = Groups.of(owners)
        found = [
            np.concatenate([chosen, groups.draw(np.unique(groups.owner[chosen]), params.extra_positives, rng, chosen)])
            for chosen in found
        ]
    return found


def _by_length(order: np.ndarray, lengths: np.ndarray, size: int, bucket: int, rng: np.random.Generator) -> np.ndarray:
    pools = []
    for start in range(0, len(order), size * bucket):
        pool = order[start : start + size * bucket]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        whole = len(pool) // size
        parts = [pool[place * size : (place + 1) * size] for place in rng.permutation(whole)]
        # What does not fill a batch stays at the end, so that only the last batch of the epoch is short.
        pools.append(np.concatenate([*parts, pool[whole * size :]]))
    return np.concatenate(pools)
