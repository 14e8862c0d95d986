"""Hinges of SUM or MAX on similarities that their neighbourhoods rescale."""

from dataclasses import replace

from vse_pipe.train.engine.loss.hinge import counted, largest, plateau, violations
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.engine.loss.terms import LossTerms
from vse_pipe.train.losses.hal_emnlp import Params
from vse_pipe.train.losses.hal_emnlp.hubs import exponents


def loss(batch: Scored, params: Params) -> LossTerms:
    """The hinges of ``sum`` or ``max`` on ``S'_it = S_it e^(mean of K1 + mean of K2)``, positives too.

    Source: HAL (EMNLP) Eq. 4 on Eq. 2 or 3; summed over the batch. K1: the k nearest texts of image i, K2:
    the k nearest images of text t, by similarity, which for unit vectors is by distance. The authors
    published no code for it. More neighbours than there are: all.

    Where scores are negative, as all of ``order`` are, a larger exponent weighs a hub less, not more: it makes a negative
    score more negative, so that of two negatives with the same score the one in the denser neighbourhood has the smaller
    hinge. Row 1.6 of the paper, order embeddings with HAL, is Eq. 4 as printed all the same.

    Captions of the same image that are masked are nobody's neighbours. Under A the neighbours of i are then
    exactly its negatives; under B they are its negatives and its one positive, less the other member of the
    cell.
    """
    hubs = exponents(batch.scores, batch.same, params.k, params.reading)
    if params.gradient == "detached":
        hubs = hubs.detach()
    texts, images = violations(replace(batch, scores=batch.scores * hubs.exp()), params.margin)
    if params.negatives == "sum":
        per_pair = texts.sum(dim=1) + images.sum(dim=0)
    else:
        per_pair = largest(texts, images, counted(batch, params.curriculum, 1))
    parts = {"violations": ((texts > 0).sum() + (images > 0).sum()).detach(), "exponent": hubs.mean().detach()}
    return LossTerms(per_pair, "sum", parts)


def stuck(mean_loss: float, batch_size: int, params: Params) -> str | None:
    """``max`` alone has the plateau of MAX: equal similarities stay equal when they are rescaled."""
    return plateau(mean_loss, batch_size, params.margin) if params.negatives == "max" else None
