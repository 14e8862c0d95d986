"""The loss of mismatched pairs against the captions and images that transport found for them (L2RM, CVPR 2024)."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Kind = Literal["symmetric_kl", "kl", "js", "infonce"]
_SMALLEST = 1e-10


def rematch_loss(
    scores: Float[Tensor, "images texts"],
    plan: Float[Tensor, "images texts"],
    temperature: float = 0.05,
    kind: Kind = "symmetric_kl",
) -> Float[Tensor, ""]:
    """Distance of the softmax of ``scores / temperature`` from ``plan``, by rows and by columns, the two added.

    Mean over the rows. With pi the refined alignment of a row and p the softmax:
    ``symmetric_kl`` is 1/2 [KL(pi, p) + KL(p, pi)], Eq. 10 of L2RM (Han et al., CVPR 2024), ``kl`` is KL(pi, p) and
    ``infonce`` the cross entropy of p under pi, both of the paper's Table 3; ``js`` is 1/2 [KL(m, p) + KL(m, pi)] with m the
    mean of both, which is what the authors' code computes under the name Jensen-Shannon: its arguments are swapped. The
    code adds 1e-10 to the softmax's denominator and overflows at similarities above 88 temperatures; here a log-softmax.
    """
    by_image = _distance((scores / temperature).log_softmax(dim=1), refined(plan), kind)
    by_text = _distance((scores.T / temperature).log_softmax(dim=1), refined(plan.T), kind)
    return by_image + by_text


def refined(plan: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """The refined alignment of each row: the plan scaled to sum 1, no entry below 1e-10 before."""
    plan = plan.clamp_min(_SMALLEST)
    return plan / plan.sum(dim=1, keepdim=True)


def _distance(log_p: Tensor, pi: Tensor, kind: Kind) -> Tensor:
    log_pi = pi.log()
    if kind == "kl":
        cells = pi * (log_pi - log_p)
    elif kind == "symmetric_kl":
        cells = 0.5 * (pi - log_p.exp()) * (log_pi - log_p)
    elif kind == "infonce":
        cells = -pi * log_p
    else:
        mean = 0.5 * (log_p.exp() + pi)
        log_mean = torch.logaddexp(log_p, log_pi) - math.log(2)
        cells = 0.5 * mean * (2 * log_mean - log_p - log_pi)
    return cells.sum(dim=1).mean()
