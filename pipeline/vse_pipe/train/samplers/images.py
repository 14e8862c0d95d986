"""Distinct images in every batch, with random captions of each (Vendrov et al.; the two-branch
networks' code)."""

import numpy as np

from vse_pipe.train.matches import Groups
from vse_pipe.train.samplers.options import ImagesOptions as Params


def batches(
    owners: np.ndarray,
    size: int,
    params: Params,
    rng: np.random.Generator,
    texts: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Positions of the pairs of each batch of an epoch, with every image once and ``size`` images a
    batch.

    owners: (pairs,) image of each pair. The captions of an image vary between epochs. A last batch
    of one pair is left out. Source: order-embedding (one caption), Two_branch_network (500 images x
    2 sentences).
    """
    groups = Groups.by_id(owners)
    order = rng.permutation(len(groups.starts) - 1)
    parts = [groups.draw(order[start : start + size], params.captions, rng) for start in range(0, len(order), size)]
    return [chosen for chosen in parts if len(chosen) > 1]
