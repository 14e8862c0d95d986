"""QB-Norm: the inverted softmax for those queries only whose best item is a hub of the bank."""

import torch
from jaxtyping import Float
from pydantic import Field, PositiveInt
from torch import Tensor

from pipeline.core.strict import Strict
from pipeline.ranking.engine.bank import Bank, log_sum_exp
from pipeline.ranking.engine.bounds import InverseTemperature
from pipeline.ranking.engine.grid import combinations
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.engine.top import ever_in_top

# Corrected and raw rows are on different scales: a matching, which compares rows, makes no sense of them.
COMPARABLE_ROWS = False


class Params(Strict):
    """beta: inverse temperature; k: an item is in the activation set when it is among the best k of a bank query (20
    and 1 in the authors' code). beta_grid, k_grid: values to try under evaluate.tune."""

    beta: InverseTemperature = 20.0
    k: PositiveInt = 1
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 5, 10])

    def candidates(self) -> list["Params"]:
        return combinations(self, k=self.k_grid, beta=self.beta_grid)


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """Dynamic inverted softmax: ``log(e^{b x_qn} / sum_bank e^{b x_q'n})`` in the rows of queries whose raw best item is
    in the activation set, the raw similarities in all others (Bogolin et al., Cross Modal Retrieval with Querybank
    Normalisation, CVPR 2022). Of equal best items the first counts. The authors' rows are the exponentials of ours."""
    active = ever_in_top(bank.queries, params.k)
    bias = log_sum_exp(bank.queries, params.beta)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        corrected = active[strip.argmax(dim=1)]
        return torch.where(corrected[:, None], torch.add(-bias.to(strip), strip, alpha=params.beta), strip)

    return scores.mapped(rescore)
