"""Evidential learning: similarities are evidence of a Dirichlet distribution, whose spread counts as well (DECL, ACM MM 2022)."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.train.batch import LossTerms, Scored, evidence, largest, open_cells, violations
from vse_pipe.train.losses.options import DeclOptions as Params


def loss(batch: Scored, params: Params) -> LossTerms:
    """``mean_i (E(e, y)_i + E(e^T, y)_i) + lambda1 sum_i y_i H_i``; e the evidence, y the batch's ``targets``, 1 without any.

    With alpha = e + 1, A the sum of a row of it and l the labels of the row, y_i on the diagonal and 0 elsewhere,
    ``E = sum_t (l_t - alpha_t / A)^2 + alpha_t (A - alpha_t) / (A^2 (A + 1)) + lambda2 KL(Dir(e (1 - l) + 1), Dir(1))``.
    H is the sum of the ``hardest`` largest violations of row and column under tanh S, divided by their number, which is
    at most the batch's negatives.

    Source: Qin et al., Deep evidential learning with noisy correspondence for cross-modal retrieval, ACM MM 2022; the
    formulas are those of the authors' public code, with its mean beside a sum. Its S is what enters the sigmoid of SGRAF;
    here it is the run's own similarity, of ``saf`` and ``sgr`` what leaves the sigmoid. Cells that are no negatives, the
    positives apart, are no classes; there they are.
    """
    cells, open_, labels = evidence(batch, params.tau), open_cells(batch), batch.trust.diag()
    errors = _errors(cells, open_, labels) + _errors(cells.T, open_.T, labels)
    evidential = errors + params.lambda2 * _from_uniform(cells * (1 - labels), open_)
    hinge = params.lambda1 * batch.trust * _hinge(batch, params)
    parts = {"evidential": evidential.mean().detach(), "hinge": hinge.sum().detach()}
    return LossTerms(evidential / len(hinge) + hinge, "sum", parts)


def _errors(
    cells: Float[Tensor, "pairs classes"], open_: Bool[Tensor, "pairs classes"], labels: Float[Tensor, "pairs classes"]
) -> Float[Tensor, " pairs"]:
    """What a row's squared error is expected to be."""
    alpha = (cells + 1).masked_fill(~open_, 0)
    total = alpha.sum(dim=1, keepdim=True)
    variance = alpha * (total - alpha) / (total**2 * (total + 1))
    return ((labels - alpha / total) ** 2 + variance).sum(dim=1)


def _from_uniform(wrong: Float[Tensor, "pairs pairs"], open_: Bool[Tensor, "pairs pairs"]) -> Float[Tensor, " pairs"]:
    """KL of the Dirichlet distributions of ``wrong + 1`` from the uniform one, of row i and of column i, added.

    wrong: 0 in classes that are not open.
    """
    # Differences of logarithms that reach 10^7 in a batch of 128: in float32 nothing would be left of some gradients.
    exact = wrong.double()
    cells = exact * (exact + 1).digamma() - (exact + 1).lgamma()
    divergence = torch.zeros_like(exact[0])
    for side in (1, 0):
        sums, classes = exact.sum(dim=side), open_.sum(dim=side).double()
        total = sums + classes
        divergence = divergence + cells.sum(dim=side) - sums * total.digamma() + total.lgamma() - classes.lgamma()
    return divergence.to(wrong.dtype)


def _hinge(batch: Scored, params: Params) -> Float[Tensor, " pairs"]:
    texts, images = violations(replace(batch, scores=batch.scores.tanh()), params.margin)
    return largest(texts, images, params.hardest)
