"""The GRU text encoder. use_abs is not stored: it is read off the stored output."""

import numpy as np
import torch

from tests.golden.compare import compare
from tests.golden.kinds._encoder_text import encoder, inputs


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    ours = encoder(arrays, use_abs=bool((arrays["out"] >= 0).all()))
    with torch.no_grad():
        return [compare("out", ours(*inputs(arrays)), arrays["out"])]
