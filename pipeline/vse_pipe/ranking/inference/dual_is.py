"""Dual inverted softmax: a penalty for closeness to the bank's queries and items."""

from vse_pipe.ranking.bank import Bank, ItemBias, log_sum_exp
from vse_pipe.ranking.inference.options import DualIsOptions as Params
from vse_pipe.ranking.scores import Scores


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """The logarithm of ``e^{b x_qn} / sum_bank e^{b x_q'n}`` times ``e^{c x_qn} / sum_gallery e^{c
    x_mn}``; q' runs over the bank's queries and m over its items, which are compared with item n.

    Wang et al., Balance Act: Mitigating Hubness in Cross-Modal Retrieval with Query and Gallery
    Banks, EMNLP 2023. The authors' ``db_norm`` normalises its second argument and never uses the
    test scores; this follows the paper. A transductive bank leaves out only the item itself from
    the gallery's sum."""
    return item_bias(bank, params).apply(scores)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """The whole correction as one number per item."""
    of_queries = log_sum_exp(bank.queries, params.beta)
    of_items = log_sum_exp(bank.items(), params.gallery_beta, but_itself=bank.is_transductive)
    return ItemBias(params.beta + params.gallery_beta, of_queries + of_items)
