"""QB-Norm: the inverted softmax only for queries whose best item is a hub of the bank."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.bank import Bank, Shares, log_sum_exp
from vse_pipe.ranking.inference.options import QbNormOptions as Params
from vse_pipe.ranking.scores import Rescore, Scores, ever_in_top


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """Dynamic inverted softmax: ``log(e^{b x_qn} / sum_bank e^{b x_q'n})`` in rows of queries whose
    raw best item (the first of equal ones) is in the activation set, the raw similarities in all
    other rows (Bogolin et al., Cross Modal Retrieval with Querybank Normalisation, CVPR 2022). The
    authors' rows are the exponentials of ours.

    For a transductive bank the sum runs over the other queries, as in ``is``, which gives the same
    order. For a single query all items tie."""
    active = ever_in_top(bank.queries, params.k)
    corrected = _corrected(scores, bank, params.beta)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        return torch.where(active[strip.argmax(dim=1)][:, None], corrected(strip, rows), strip)

    return scores.mapped(rescore)


def _corrected(scores: Scores, bank: Bank, beta: float) -> Rescore:
    if not bank.is_transductive:
        bias = log_sum_exp(bank.queries, beta)
        return lambda strip, rows: torch.add(-bias.to(strip), strip, alpha=beta)
    if scores.shape[0] == 1:
        return lambda strip, rows: torch.zeros_like(strip)
    shares = Shares.over(scores, beta)
    return lambda strip, rows: shares.log_odds(strip)
