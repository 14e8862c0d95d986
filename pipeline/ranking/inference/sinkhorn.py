"""Sinkhorn normalisation: every item gets the same share of the attention of the bank, and every query gives the same."""

import math

import torch
from jaxtyping import Float
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from pipeline.core.strict import Strict
from pipeline.ranking.engine.bank import Bank, ItemBias
from pipeline.ranking.engine.bounds import Temperature
from pipeline.ranking.engine.grid import combinations
from pipeline.ranking.engine.scores import Scores


class Params(Strict):
    """tau: temperature of the transport; tolerance: on the residual, the largest relative error of a bank query's
    marginal; max_iterations: when to give up on it. tau_grid: values to try under evaluate.tune."""

    tau: Temperature = 0.05
    tolerance: PositiveFloat = 1e-3
    max_iterations: PositiveInt = 500
    tau_grid: list[Temperature] = Field(min_length=1, default_factory=lambda: [0.01, 0.02, 0.03, 0.05, 0.1])

    def candidates(self) -> list["Params"]:
        return combinations(self, tau=self.tau_grid)


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """``x_qn / tau + v_n``; v is the items' potential in the entropic transport between the bank's queries and the items
    under uniform marginals (Pan et al., Hubness Reduction with Dual Bank Sinkhorn Normalization, ACM MM 2025: SN).

    One iteration from nothing is the inverted softmax. The authors' code makes a fixed 10 iterations on plain
    exponentials in float64; this one stays with logarithms and goes on to ``tolerance``. ``notes`` of the result holds
    the residual and the iterations: what the caller reports.
    """
    return item_bias(bank, params).apply(scores)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """The whole correction; it is one number an item. Its notes: ``residual`` and ``iterations``."""
    queries, beta = bank.queries, 1.0 / params.tau
    log_marginal = -math.log(queries.shape[0])
    potential, _ = _pass(queries, beta, None, log_marginal)
    own = torch.zeros(queries.shape[0], dtype=torch.float64, device=potential.device)
    for iteration in range(1, params.max_iterations + 1):
        updated, own_updated = _pass(queries, beta, potential, log_marginal)
        # Under the potentials in force a query's marginal is e^(own - own_updated) times what it should be.
        residual = float((own - own_updated).exp().sub_(1.0).abs().max())
        if residual <= params.tolerance or iteration == params.max_iterations:
            break
        potential, own = updated, own_updated
    return ItemBias(beta, -potential, {"residual": residual, "iterations": iteration})


def _pass(
    scores: Scores, beta: float, potential: Float[Tensor, " items"] | None, log_marginal: float
) -> tuple[Float[Tensor, " items"], Float[Tensor, " queries"]]:
    """Both updates in one pass over the scores: the queries' potentials under ``potential`` (zeros without one), and from
    them the items', so that each item's marginal is exact."""
    total, own = None, None
    for rows in scores.strips():
        kernel = scores.strip(rows) * beta
        if potential is None:
            part = kernel.logsumexp(dim=0).double()
        else:
            queries = log_marginal - (kernel + potential.to(kernel)).logsumexp(dim=1).double()
            own = queries.new_empty(scores.shape[0]) if own is None else own
            own[rows] = queries
            part = kernel.add_(queries.to(kernel)[:, None]).logsumexp(dim=0).double()
        total = part if total is None else torch.logaddexp(total, part)
    return -math.log(scores.shape[1]) - total, total.new_empty(0) if own is None else own
