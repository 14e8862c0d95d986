"""Hub: InfoNCE with larger weights for hubs, and a target without hubs for similarities
(NeighborRetr, CVPR 2025)."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.losses.options import HubOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, log_chances, open_cells

# Of Sinkhorn's algorithm.
_ITERATIONS = 50


def loss(batch: Scored, params: Params) -> LossTerms:
    """``-w_i log p_ii - v_i log q_ii + u (-sum_t T_it log p_it - sum_j T_ji log q_ij)`` for pair i;
    mean over the batch.

    p and q are the softmaxes of ``S / tau`` over the texts of image i and over the images of text
    i; ``w_i = e^(c mean_t S_it)``, ``v_i = e^(c mean_j S_ji)``; ``T = beta Q + (1 - beta) I`` with
    the ``plan`` Q of the batch, without gradient. Cells that are neither negative nor diagonal are
    left out.

    Source: centrality weighting and uniform regularisation of Lin et al., NeighborRetr: balancing
    hub centrality in cross-modal retrieval, CVPR 2025. Unlike the authors' public code, centrality
    is measured across images and texts instead of within one view, which permits fragment models;
    p, q and the plan share one temperature; both directions share one plan and are added, not
    averaged. Neighbour adjusting with a bank, and the distance of local from global similarities,
    are not implemented.
    """
    open_ = open_cells(batch)
    scores = batch.scores.masked_fill(~open_, 0)
    image_weight, text_weight = (
        (params.centrality * scores.sum(dim=side) / open_.sum(dim=side)).exp() for side in (1, 0)
    )
    texts, images = log_chances(batch, params.tau)
    central = -image_weight * texts.diagonal() - text_weight * images.diagonal()
    even = plan(batch, params.tau)
    target = params.beta * even + (1 - params.beta) * torch.eye(len(even), dtype=even.dtype, device=even.device)
    image_part = (target * texts.masked_fill(~open_, 0)).sum(dim=1)
    uniform = -image_part - (target.T * images.masked_fill(~open_.T, 0)).sum(dim=1)
    return LossTerms(central + params.uniform * uniform, "mean")


@torch.no_grad()
def plan(batch: Scored, tau: float) -> Float[Tensor, "pairs pairs"]:
    """The transport plan in which every image and text is retrieved equally often, by Sinkhorn's
    algorithm.

    ``e^(S / tau)`` with rows and columns alternately scaled to sum 1; at the end columns are exact
    and rows approximate.
    """
    logits = (batch.scores.detach() / tau).masked_fill(~open_cells(batch), -torch.inf)
    columns = torch.zeros_like(logits[0])
    for _ in range(_ITERATIONS):
        rows = -(logits + columns).logsumexp(dim=1, keepdim=True)
        columns = -(logits + rows).logsumexp(dim=0)
    return (logits + rows + columns).exp()
