"""Hub: InfoNCE that weighs hubs more, and similarities drawn towards a plan without hubs (NeighborRetr, CVPR 2025)."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.train.batch import LossTerms, Scored, log_chances, open_cells
from vse_pipe.train.losses.options import HubOptions as Params


def loss(batch: Scored, params: Params) -> LossTerms:
    """``-w_i log p_ii - v_i log q_ii + u (-sum_t T_it log p_it - sum_j T_ji log q_ij)`` for pair i; mean over the batch.

    p and q: the softmaxes of ``S / tau`` over the texts of image i and the images of text i; ``w_i = e^(c mean_t S_it)``,
    ``v_i = e^(c mean_j S_ji)``; ``T = beta Q + (1 - beta) I``, Q the ``plan`` of the batch, without gradient.

    Source: Lin et al., NeighborRetr: balancing hub centrality in cross-modal retrieval, CVPR 2025, its centrality weighting
    and uniform regularisation as in the authors' public code. Other than there, an image is central by its similarity to the
    batch's texts and a text to the images, not within its own view, so that models of fragments have weights too; p, q and
    the plan have one temperature; both directions are added, not halved, and have one plan. Their neighbour adjusting,
    against a bank, and the distance of local from global similarities are not built. Cells that are no negatives, the
    positives apart, have no part.
    """
    return _towards(batch, plan(batch, params.tau, params.iterations), params)


def _towards(batch: Scored, plan: Float[Tensor, "pairs pairs"], params: Params) -> LossTerms:
    """The loss with this plan."""
    open_ = open_cells(batch)
    near = batch.scores.masked_fill(~open_, 0)
    of_image, of_text = ((params.centrality * near.sum(dim=side) / open_.sum(dim=side)).exp() for side in (1, 0))
    texts, images = log_chances(batch, params.tau)
    central = -of_image * texts.diagonal() - of_text * images.diagonal()
    target = params.beta * plan + (1 - params.beta) * torch.eye(len(plan)).to(plan)
    by_image = (target * texts.masked_fill(~open_, 0)).sum(dim=1)
    by_text = (target.T * images.masked_fill(~open_.T, 0)).sum(dim=1)
    uniform = -by_image - by_text
    parts = {"central": central.mean().detach(), "uniform": uniform.mean().detach()}
    return LossTerms(central + params.uniform * uniform, "mean", parts)


@torch.no_grad()
def plan(batch: Scored, tau: float, iterations: int) -> Float[Tensor, "pairs pairs"]:
    """How the similarities would look if everything were found as often: Sinkhorn's algorithm on a batch.

    ``e^(S / tau)`` with rows and columns scaled in turn to sum 1: columns do, rows as nearly as ``iterations`` allow.
    """
    logits = (batch.scores.detach() / tau).masked_fill(~open_cells(batch), -torch.inf)
    columns = torch.zeros_like(logits[0])
    for _ in range(iterations):
        rows = -(logits + columns).logsumexp(dim=1, keepdim=True)
        columns = -(logits + rows).logsumexp(dim=0)
    return (logits + rows + columns).exp()
