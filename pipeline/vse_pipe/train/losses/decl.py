"""Evidential learning: similarities are evidence of a Dirichlet distribution, and its spread
counts (DECL, ACM MM 2022)."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse_pipe.train.losses.options import DeclOptions as Params
from vse_pipe.train.scored import LossTerms, Scored, evidence, largest, open_cells, violations


def loss(batch: Scored, params: Params) -> LossTerms:
    """``mean_i (E(e, y)_i + E(e^T, y)_i) + lambda1 sum_i y_i H_i`` with evidence e and the batch's
    ``targets`` y (default 1).

    Let alpha = e + 1, A its sum over a row, and l the labels of the row: y_i on the diagonal and 0
    elsewhere. Then ``E = sum_t (l_t - alpha_t / A)^2 + alpha_t (A - alpha_t) / (A^2 (A + 1)) +
    lambda2 KL(Dir(e (1 - l) + 1), Dir(1))``. H is the mean of the ``hardest`` largest violations of
    the row plus that of the column under tanh S; the batch's negatives limit their number.

    Source: Qin et al., Deep evidential learning with noisy correspondence for cross-modal
    retrieval, ACM MM 2022, with the formulas of the authors' public code, including its mixture of
    a mean and a sum. Unlike the code, S is the run's similarity (for ``saf`` and ``sgr`` after the
    sigmoid instead of before it), and cells that are neither negative nor diagonal are no classes.
    """
    cells, open_, labels = evidence(batch, params.tau), open_cells(batch), batch.trust.diag()
    errors = _errors(cells, open_, labels) + _errors(cells.T, open_.T, labels)
    evidential = errors + params.lambda2 * _from_uniform(cells * (1 - labels), open_)
    sides = violations(replace(batch, scores=batch.scores.tanh()), params.margin)
    hinge = params.lambda1 * batch.trust * largest(*sides, params.hardest)
    return LossTerms(evidential / len(hinge) + hinge, "sum")


def _errors(
    cells: Float[Tensor, "pairs classes"], open_: Bool[Tensor, "pairs classes"], labels: Float[Tensor, "pairs classes"]
) -> Float[Tensor, " pairs"]:
    """The expected squared error of each row."""
    alpha = (cells + 1).masked_fill(~open_, 0)
    total = alpha.sum(dim=1, keepdim=True)
    variance = alpha * (total - alpha) / (total**2 * (total + 1))
    return ((labels - alpha / total) ** 2 + variance).sum(dim=1)


def _from_uniform(wrong: Float[Tensor, "pairs pairs"], open_: Bool[Tensor, "pairs pairs"]) -> Float[Tensor, " pairs"]:
    """The sum of two KL divergences from the uniform distribution: of ``Dir(wrong + 1)`` in row i
    and in column i.

    wrong: evidence of wrong classes, 0 outside of ``open_``.
    """
    # Logarithms reach 10^7 in a batch of 128, so float32 would lose the gradients of their
    # differences.
    exact = wrong.double()
    cells = exact * (exact + 1).digamma() - (exact + 1).lgamma()
    divergence = torch.zeros_like(exact[0])
    for side in (1, 0):
        sums, classes = exact.sum(dim=side), open_.sum(dim=side).double()
        total = sums + classes
        divergence = divergence + cells.sum(dim=side) - sums * total.digamma() + total.lgamma() - classes.lgamma()
    return divergence.to(wrong)
