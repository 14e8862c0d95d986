"""Pairs as the data set has them, right or wrong: for data that is noisy by itself, such as CC152K."""

import numpy as np

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import ProtocolTraits

# pairs.parquet then holds null where it would tell the truth about a train pair.
TRAITS = ProtocolTraits(decides_by="nothing", knows_truth=False)


class Params(Strict):
    """No options: nothing is injected."""


def corrupt(caption_images: np.ndarray, n_images: int, given: None, rng: np.random.RandomState) -> np.ndarray:
    """``caption_images``: every caption stays with its image, and nobody knows whether it describes it."""
    return np.array(caption_images)
