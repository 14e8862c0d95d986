"""The rematching loss with its gradient, and the losses of the ablations."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.train.schemes.l2rm import rematch_loss


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    scores, plan = torch.tensor(arrays["sims"], requires_grad=True), torch.from_numpy(arrays["plan"])
    tau = float(arrays["tau"])
    both = rematch_loss(scores, plan, tau)
    (slope,) = torch.autograd.grad(both, scores)
    found = [
        compare("sym_kl", both.detach(), arrays["sym_kl"]),
        compare("grad_sims", slope, arrays["grad_sims"], atol=1e-4),
    ]
    with torch.no_grad():
        for stored, kind in [("kl", "kl"), ("js", "js"), ("soft_infonce", "infonce")]:
            found.append(compare(stored, rematch_loss(scores, plan, tau, kind), arrays[stored]))
    return found
