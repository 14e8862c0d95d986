"""SigLIP's loss of two sets of unit vectors, and its gradients, those of scale and bias included; float64."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.batch import Scored
from vse_pipe.train.losses.options import SigmoidOptions as Params
from vse_pipe.train.losses.sigmoid import loss, network


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    given = {name: torch.tensor(arrays[name], requires_grad=True) for name in ("images", "texts")}
    logits = network(Params()).double()
    logits.load_state_dict({name: torch.tensor(arrays[name]) for name in ("log_scale", "bias")})
    total = loss(Scored.of(given["images"] @ given["texts"].T), Params(), logits).total()
    total.backward()
    learned = given | dict(logits.named_parameters())
    return [
        compare("loss", total.detach(), arrays["loss"], atol=1e-9, rtol=1e-9),
        *(
            compare(f"grad_{name}", one.grad, arrays[f"grad_{name}"], atol=1e-9, rtol=1e-9)
            for name, one in learned.items()
        ),
    ]
