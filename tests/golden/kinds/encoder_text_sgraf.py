"""The words of the local models: each token's state, directions averaged, zero past the caption's end."""

import numpy as np
import torch

from tests.golden.compare import compare
from tests.golden.kinds._encoder_text import encoder, inputs


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    ours = encoder(arrays, rnn="cap_rnn", dropout=0.4)
    with torch.no_grad():
        return [compare("out", ours.words(*inputs(arrays)), arrays["out"])]
