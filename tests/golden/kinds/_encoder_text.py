"""A GRU text encoder from the authors' stored weights, and what it reads."""

import numpy as np
import torch

from vse_pipe.train.encoders.text.gru import GRUTextEncoder, build
from vse_pipe.train.encoders.text.options import GruOptions as Params


def encoder(arrays: dict[str, np.ndarray], rnn: str = "rnn", **options) -> GRUTextEncoder:
    """Sizes, layers and directions are read off the weights; ``rnn``: the authors' name of the GRU."""
    words, word_dim = arrays["w/embed.weight"].shape
    weights = {
        name[2:].replace(f"{rnn}.", "rnn.", 1): torch.tensor(array)
        for name, array in arrays.items()
        if name.startswith("w/")
    }
    params = Params(
        word_dim=word_dim,
        layers=sum(name.startswith("rnn.weight_ih") and not name.endswith("_reverse") for name in weights),
        bidirectional="rnn.weight_ih_l0_reverse" in weights,
        **options,
    )
    built = build(params, words, arrays["out"].shape[-1], torch.Generator())
    built.load_state_dict(weights)
    return built.eval()


def inputs(arrays: dict[str, np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(arrays["tokens"]), torch.tensor(arrays["lengths"])
