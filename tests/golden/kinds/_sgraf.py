"""SGRAF's similarities on the authors' weights and inputs, in evaluation."""

import numpy as np
import torch

from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.fragments import Words


def scores(arrays: dict[str, np.ndarray], name: str, dtype: torch.dtype) -> torch.Tensor:
    """The network takes its sizes from the weights and must take every one of them."""
    weights = {key[2:]: torch.tensor(value) for key, value in arrays.items() if key.startswith("w/")}
    images = torch.tensor(arrays["images"]).to(dtype)
    words = Words.from_padded(torch.tensor(arrays["captions"]).to(dtype), torch.tensor(arrays["cap_lens"]))
    member = SIMILARITIES.load(name)
    sizes = {"sim_dim": weights["sim_eval_w.weight"].shape[1]}
    if name == "sgr":
        sizes["steps"] = 1 + max(int(key.split(".")[1]) for key in weights if key.startswith("SGR_module"))
    params = member.Params(**sizes)
    network = member.network(params, images.shape[2], images.shape[1], torch.Generator())
    network.load_state_dict(weights)
    network = network.to(dtype).eval()
    with torch.no_grad():
        return member.score(images, words, params, network)
