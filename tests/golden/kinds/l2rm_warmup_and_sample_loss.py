"""L2RM's warm-up: InfoNCE with and without reverse cross entropy, the hinge losses, and the loss of each pair."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.project.registry import LOSSES
from vse_pipe.train.batch import Scored, sample_losses


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    scores = torch.tensor(arrays["S"], requires_grad=True)
    batch, tau, margin = Scored.of(scores), float(arrays["tau"]), float(arrays["margin"])

    def total(name: str, **options) -> torch.Tensor:
        member = LOSSES.load(name)
        return member.loss(batch, member.Params(**options)).total()

    both = total("infonce_rce", tau=tau)
    (slope,) = torch.autograd.grad(both, scores)
    with torch.no_grad():
        shares = sample_losses(batch, margin)
        return [
            compare("rce", both.detach(), arrays["rce"]),
            compare("rce_grad", slope, arrays["rce_grad"], atol=1e-4),
            compare("infonce", total("infonce", tau=tau), arrays["infonce"]),
            compare("warmup", shares.sum(), arrays["warmup"]),
            compare("max_violation", total("max", margin=margin), arrays["max_violation"]),
            compare("hardest", sample_losses(batch, margin, hardest=True).sum(), arrays["max_violation"]),
            compare("eval_loss", shares, arrays["eval_loss"]),
        ]
