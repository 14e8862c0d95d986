"""The GRU text encoder. use_abs is not stored: it is read off the stored output."""

import numpy as np
import torch

from pipeline.train.encoders.text.gru import Params, build
from tests.golden.compare import compare


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    words, word_dim = arrays["w/embed.weight"].shape
    layers = sum(name.startswith("w/rnn.weight_ih") for name in arrays)
    params = Params(word_dim=word_dim, layers=layers, use_abs=bool((arrays["out"] >= 0).all()))
    encoder = build(params, words, arrays["out"].shape[1], torch.Generator())
    encoder.load_state_dict(
        {name[2:]: torch.tensor(array) for name, array in arrays.items() if name.startswith("w/")}
    )
    with torch.no_grad():
        ours = encoder(torch.tensor(arrays["tokens"]), torch.tensor(arrays["lengths"]))
    return [compare("out", ours, arrays["out"])]
