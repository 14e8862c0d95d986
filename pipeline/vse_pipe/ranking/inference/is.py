"""Inverted softmax: an item's attention to this query among all queries.

A keyword cannot follow ``import``: load this module by name, through
``vse_pipe.project.registry``."""

import torch
from torch import Tensor

from vse_pipe.core.errors import InputError
from vse_pipe.ranking.bank import Bank, ItemBias, Shares, log_sum_exp
from vse_pipe.ranking.inference.options import IsOptions as Params
from vse_pipe.ranking.scores import Scores


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """``log(e^{b x_qn} / sum_{q' != q} e^{b x_q'n})``, the logarithm of Eq. 5.

    Smith et al., Offline bilingual word vectors, ICLR 2017, as in the RGM paper (section 3.3.1,
    beta 30). q' runs over the bank. MUSE's denominator includes the query itself
    (``include_query``), which bounds the value by 1 and changes no order: share and odds rise
    together. Raises InputError when the only query is the bank: there is nothing to sum."""
    if not bank.is_transductive:
        logs = item_bias(bank, params).apply(scores)
        return logs.mapped(lambda strip, rows: _share_of(strip)) if params.include_query else logs
    if scores.shape[0] < 2 and not params.include_query:
        raise InputError(
            "is: the denominator sums over the other queries and there are none; set inference.is.include_query: true"
        )
    shares = Shares.over(scores, params.beta)

    # Only the odds preserve the distance of a share from 1.
    odds = scores.mapped(lambda strip, rows: shares.log_odds(strip))
    return odds.mapped(lambda strip, rows: _share_of(strip)) if params.include_query else odds


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """``b x_qn - log sum_bank e^{b x_q'n}``, MUSE's logarithm, which ranks as Eq. 5."""
    return ItemBias(params.beta, log_sum_exp(bank.queries, params.beta))


def _share_of(odds: Tensor) -> Tensor:
    """``log(p)`` from ``log(p / (1 - p))``."""
    return torch.logaddexp(odds.new_zeros(()), -odds).neg_()
