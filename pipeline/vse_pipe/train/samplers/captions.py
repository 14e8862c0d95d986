"""Shuffle over captions: every caption once an epoch, with its image (vsepp and its descendants)."""

import numpy as np

from vse_pipe.train.data import Groups
from vse_pipe.train.samplers.options import CaptionsOptions as Params


def batches(
    owners: np.ndarray,
    lengths: np.ndarray,
    size: int,
    params: Params,
    rng: np.random.Generator,
    texts: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Positions of the pairs of each batch of one epoch. owners: (pairs,) image of each pair; lengths: (pairs,) words.
    texts: (pairs,) number of each pair's text; None where every pair has a text of its own.

    Two captions of one image may meet in a batch, as in the authors' code (``train.mask_same_image`` keeps them from being
    negatives of each other). A last batch of one pair is left out: it has no negative. ``extra_positives`` come on top
    of ``size``: for each image drawn random pairs with a caption that is not in the batch yet, as many as there are, and
    ``extra_images`` likewise for each caption (Wang et al. 2016, sections 2.2 and 3.3). With ``bucket`` the batches of a pool hold captions of like length and come in random order.
    """
    order = rng.permutation(len(owners))
    if params.bucket > 1:
        order = _by_length(order, lengths, size, params.bucket, rng)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    parts = [chosen for chosen in parts if len(chosen) > 1]
    texts = np.arange(len(owners)) if texts is None else texts
    sides = (owners, texts, params.extra_positives), (texts, owners, params.extra_images)
    further = [(Groups.by_id(side), opposite, limit) for side, opposite, limit in sides if limit]
    return [np.concatenate([chosen, *(_further(chosen, *group, rng) for group in further)]) for chosen in parts]


def _further(
    chosen: np.ndarray, groups: Groups, opposite: np.ndarray, limit: int, rng: np.random.Generator
) -> np.ndarray:
    """Up to ``limit`` more pairs of every group that is among ``chosen``, with none of the ``opposite`` side that is."""
    used = np.flatnonzero(np.isin(opposite, opposite[chosen]))
    return groups.draw(np.unique(groups.owner[chosen]), limit, rng, used)


def _by_length(order: np.ndarray, lengths: np.ndarray, size: int, bucket: int, rng: np.random.Generator) -> np.ndarray:
    pools = []
    for start in range(0, len(order), size * bucket):
        pool = order[start : start + size * bucket]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        full = len(pool) // size
        parts = [pool[place * size : (place + 1) * size] for place in rng.permutation(full)]
        # What does not fill a batch stays at the end, so that only the last batch of the epoch is short.
        pools.append(np.concatenate([*parts, pool[full * size :]]))
    return np.concatenate(pools)
