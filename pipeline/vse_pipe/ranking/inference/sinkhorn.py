"""Sinkhorn: items get equal shares of the bank's attention, queries give equal ones."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking import fragments
from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.inference.options import SinkhornOptions as Params
from vse_pipe.ranking.scores import Scores

# Above it float32 errs by 1e-4 or more in the exponent of a share.
_LARGE = 1000.0


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """``x_qn / tau + v_n``; v is the items' potential in the entropic transport between bank
    queries and items under uniform marginals (Pan et al., Hubness Reduction with Dual Bank Sinkhorn
    Normalization, ACM MM 2025: SN).

    The first iteration is the inverted softmax. The authors' code runs 10 iterations on
    exponentials in float64; this one uses logarithms and stops at ``tolerance``. ``notes`` of the
    result has the residual and the iterations.

    Scores above ``_LARGE`` temperatures are computed in float64: float32 cannot separate a query's
    best items there."""
    is_large = _is_large(bank.queries, params.tau)
    return _item_bias(bank, params, is_large).apply(_exact(scores) if is_large else scores)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """The whole correction as one number per item. Its notes: ``residual`` and ``iterations``."""
    return _item_bias(bank, params, _is_large(bank.queries, params.tau))


def _item_bias(bank: Bank, params: Params, is_large: bool) -> ItemBias:
    queries, beta = _exact(bank.queries) if is_large else bank.queries, 1.0 / params.tau
    log_marginal = -math.log(queries.shape[0])
    potential, _ = _pass(queries, beta, None, log_marginal)
    query_potential = torch.zeros(queries.shape[0], dtype=torch.float64, device=potential.device)
    for iteration in range(1, params.max_iterations + 1):
        updated, query_updated = _pass(queries, beta, potential, log_marginal)
        # The ratio of a query's marginal to its target is e^(query_potential - query_updated).
        residual = float((query_potential - query_updated).exp().sub_(1.0).abs().max())
        if residual <= params.tolerance or iteration == params.max_iterations:
            break
        potential, query_potential = updated, query_updated
    return ItemBias(beta, -potential, {"residual": residual, "iterations": iteration})


def _is_large(scores: Scores, tau: float) -> bool:
    return max(float(strip.abs().max()) for _, strip in scores.blocks()) > _LARGE * tau


def _exact(scores: Scores) -> Scores:
    return scores.mapped(lambda strip, rows: strip.double())


def _pass(
    scores: Scores, beta: float, potential: Float[Tensor, " items"] | None, log_marginal: float
) -> tuple[Float[Tensor, " items"], Float[Tensor, " queries"]]:
    """Both updates in one pass: the queries' potentials under ``potential`` (zeros without one),
    then the items' potentials, so that each item's marginal is exact."""

    total: Tensor | None = None
    query_potential: Tensor | None = None
    for rows, strip in scores.blocks():
        kernel = strip * beta
        if potential is not None:
            queries = log_marginal - (kernel + potential.to(kernel)).logsumexp(dim=1).double()
            kernel.add_(queries.to(kernel)[:, None])
            query_potential = queries.new_empty(scores.shape[0]) if query_potential is None else query_potential
            query_potential[rows] = queries
        part = fragments.column_log_sums(kernel)
        total = part if total is None else torch.logaddexp(total, part)
    assert total is not None
    return -math.log(scores.shape[1]) - total, total.new_empty(0) if query_potential is None else query_potential
