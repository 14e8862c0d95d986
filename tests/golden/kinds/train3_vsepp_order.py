"""Training steps under the order similarity, as the VSE++ code takes them."""

import numpy as np

from tests.golden.kinds._train3 import check_steps


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    return check_steps("order", arrays)
