"""The linear image encoder. no_imgnorm and use_abs are not stored: the variant is read off the stored output."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.encoders.image.linear import build
from vse_pipe.train.encoders.image.options import LinearOptions as Params


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    stored = arrays["out"]
    unit = np.allclose(np.linalg.norm(stored, axis=1), 1.0, atol=1e-4)
    params = Params(no_imgnorm=not unit, use_abs=bool((stored >= 0).all()))
    encoder = build(params, (arrays["x"].shape[1],), stored.shape[1], torch.Generator())
    encoder.load_state_dict({name[2:]: torch.tensor(array) for name, array in arrays.items() if name.startswith("w/")})
    with torch.no_grad():
        return [compare("out", encoder(torch.tensor(arrays["x"])), stored)]
