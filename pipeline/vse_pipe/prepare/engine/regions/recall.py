"""How many phrases have a proposal that covers them: no model that ranks the proposals finds more."""

import numpy as np
import torch

from vse_pipe.ranking import boxes

# As of Flickr30k Entities: a box is found by one that overlaps it at least so much.
OVERLAP = 0.5


def covered(mentions: list[np.ndarray], proposals: list[np.ndarray]) -> np.ndarray:
    """bool, one for each mention, picture by picture: whether a proposal of its picture has an IoU of ``OVERLAP`` or more.

    mentions, proposals: parallel, of each picture (n, 4) as of ``vse_pipe.ranking.boxes``.
    """
    found = [
        (boxes.iou(*map(torch.from_numpy, pair)).amax(dim=1) >= OVERLAP).numpy()
        for pair in zip(mentions, proposals, strict=True)
    ]
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)
