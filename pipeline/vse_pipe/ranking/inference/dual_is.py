"""Dual inverted softmax: an item is penalised for being near to the bank's queries and near to the bank's items."""

from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.inference.options import DualIsOptions as Params
from vse_pipe.ranking.scores import Scores


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """The logarithm of ``e^{b x_qn} / sum_bank e^{b x_q'n}`` times ``e^{c x_qn} / sum_gallery e^{c x_mn}``; n' and m run
    over the bank's queries and over the bank's items, which are compared with item n itself.

    Wang et al., Balance Act: Mitigating Hubness in Cross-Modal Retrieval with Query and Gallery Banks, EMNLP 2023. The
    authors' ``db_norm`` normalises its second argument and never uses the test scores; this is what the paper says. Where
    the bank is what is ranked, sums leave out nothing but the item itself from the gallery's.
    """
    return item_bias(bank, params).apply(scores)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """The whole correction; it is one number an item."""
    bias = bank.log_sum(params.beta) + bank.log_sum(params.gallery_beta, of_gallery=True)
    return ItemBias(params.beta + params.gallery_beta, bias)
