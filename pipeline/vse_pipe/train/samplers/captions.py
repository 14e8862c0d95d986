"""Shuffle over captions: every caption once an epoch, with its image (vsepp and its
descendants)."""

import numpy as np

from vse_pipe.train.matches import Groups, shuffled
from vse_pipe.train.samplers.options import CaptionsOptions as Params


def batches(
    owners: np.ndarray,
    size: int,
    params: Params,
    rng: np.random.Generator,
    texts: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Positions of the pairs of each batch of an epoch. owners: (pairs,) image of each pair;
    texts: (pairs,) number of each pair's text, or None if every pair has a different text.

    A batch can contain two captions of an image, as in the authors' code (``train.mask_same_image``
    excludes them from the negatives). A last batch of one pair is left out, because it has no
    negative. ``extra_positives`` are added to ``size``: for each image, up to this many random
    pairs with captions from outside of the batch; ``extra_images`` likewise for each caption (Wang
    et al. 2016, sections 2.2 and 3.3).
    """
    parts = shuffled(np.arange(len(owners)), size, rng)
    texts = np.arange(len(owners)) if texts is None else texts
    sides = (owners, texts, params.extra_positives), (texts, owners, params.extra_images)
    further = [(Groups.by_id(side), opposite, limit) for side, opposite, limit in sides if limit]
    return [np.concatenate([chosen, *(_further(chosen, *group, rng) for group in further)]) for chosen in parts]


def _further(
    chosen: np.ndarray, groups: Groups, opposite: np.ndarray, limit: int, rng: np.random.Generator
) -> np.ndarray:
    """Up to ``limit`` more pairs of each group of ``chosen``, without the members of the
    ``opposite`` side of ``chosen``."""
    used = np.flatnonzero(np.isin(opposite, opposite[chosen]))
    return groups.draw(np.unique(groups.owner[chosen]), limit, rng, used)
