"""x"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from vse_pipe.ranking.metrics.graded import Graded


@dataclass(frozen=True)
class Labels:
    """images: unique ids; has: 1 where the image has the label, else 0."""

    images: np.ndarray
    has: Float[np.ndarray, "images labels"]


@dataclass(frozen=True)
class Further:
    """Judgements and labels of a data set; None for none."""

    graded: Graded | None = None
    labels: Labels | None = None
