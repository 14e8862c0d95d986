"""Rows of active queries corrected, the others left as they are."""

import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.ranking.engine.bank import Bank
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.engine.top import ever_in_top
from pipeline.ranking.inference.qb_norm import Params


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """Dynamic inverted softmax: ``log(e^{b x_qn} / sum_bank e^{b x_q'n})`` in the rows of queries whose raw best item is
    in the activation set, the raw similarities in all others (Bogolin et al., Cross Modal Retrieval with Querybank
    Normalisation, CVPR 2022). Of equal best items the first counts. The authors' rows are the exponentials of ours."""
    active = ever_in_top(bank.queries, params.k)
    bias = bank.log_sum(params.beta)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        corrected = active[strip.argmax(dim=1)]
        return torch.where(corrected[:, None], torch.add(-bias.to(strip), strip, alpha=params.beta), strip)

    return scores.mapped(rescore)
