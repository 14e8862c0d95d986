"""HAL of the EMNLP 2019 paper: SUM or MAX on scores that grow with the neighbourhoods they lie in."""

from dataclasses import replace
from typing import Literal

from pydantic import NonNegativeFloat, PositiveInt

from pipeline.core.strict import Strict
from pipeline.train.engine.loss.hinge import plateau, violations
from pipeline.train.engine.loss.hubs import exponents
from pipeline.train.engine.loss.scored import Scored
from pipeline.train.engine.loss.terms import LossTerms


class Params(Strict):
    """margin: distance, on the rescaled similarity, by which a positive must beat a negative (paper: 0.2).

    k: neighbours whose mean is taken (the paper's 3; 1 in its row 2.23). reading: which point Eq. 4 leaves
    out of the neighbours, ``A`` the match of image and of text, ``B`` the other member of the cell; Eq. 2's
    wording, where t is the text of image i, speaks for A. gradient: ``detached``, the exponent is a constant
    weight as in the self-tuning of Zelnik-Manor and Perona that it follows, or ``full``. negatives: ``sum``
    (Eq. 2, the paper's default) or ``max`` (Eq. 3, its MAX+HAL).
    """

    margin: NonNegativeFloat = 0.2
    k: PositiveInt = 3
    reading: Literal["A", "B"] = "A"
    gradient: Literal["detached", "full"] = "detached"
    negatives: Literal["sum", "max"] = "sum"


def loss(batch: Scored, params: Params) -> LossTerms:
    """The hinges of ``sum`` or ``max`` on ``S'_it = S_it e^(mean of K1 + mean of K2)``, positives too.

    Source: HAL (EMNLP) Eq. 4 on Eq. 2 or 3; summed over the batch. K1: the k nearest texts of image i, K2:
    the k nearest images of text t, by similarity, which for unit vectors is by distance. The authors
    published no code for it. More neighbours than there are: all.

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
        per_pair = texts.max(dim=1).values + images.max(dim=0).values
    parts = {
        "violations": ((texts > 0).sum() + (images > 0).sum()).detach(),
        "exponent": hubs.mean().detach(),
    }
    return LossTerms(per_pair, "sum", parts)


def stuck(mean_loss: float, batch_size: int, params: Params) -> str | None:
    """``max`` alone has the plateau of MAX: equal similarities stay equal when they are rescaled."""
    return plateau(mean_loss, batch_size, params.margin) if params.negatives == "max" else None
