"""HAL's Eq. 4 (EMNLP) on a plain implementation: the exponent, the rescaled scores, both losses, both gradients.

The reading of the equation is not stored. It is found by the exponent, which differs between the two.
"""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.batch import Scored
from vse_pipe.train.losses.hal_emnlp import exponents, loss
from vse_pipe.train.losses.options import HalEmnlpOptions as Params

TIGHT = {"atol": 1e-9, "rtol": 1e-9}


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    k = int(arrays["k"])
    scores = torch.tensor(arrays["im"]).double() @ torch.tensor(arrays["s"]).double().T
    same = torch.eye(len(scores), dtype=torch.bool)
    both = {reading: exponents(scores, same, k, reading) for reading in ("A", "B")}
    reading = min(both, key=lambda name: np.abs(both[name].numpy() - arrays["exponent"]).max())

    def total(leaf: torch.Tensor, **options) -> torch.Tensor:
        return loss(Scored.of(leaf), Params(margin=0.2, k=k, reading=reading, **options)).total()

    results = [
        compare("S", scores, arrays["S"], **TIGHT),
        compare("exponent", both[reading], arrays["exponent"], **TIGHT),
        compare("S_reweighted", scores * both[reading].exp(), arrays["S_reweighted"], **TIGHT),
        compare("loss_sum", total(scores), arrays["loss_sum"], **TIGHT),
        compare("loss_max", total(scores, negatives="max"), arrays["loss_max"], **TIGHT),
    ]
    for gradient in ("detached", "full"):
        leaf = scores.clone().requires_grad_()
        total(leaf, gradient=gradient).backward()
        results.append(compare(f"grad_S_{gradient}", leaf.grad, arrays[f"grad_S_{gradient}"], atol=1e-8, rtol=1e-8))
    return results
