"""NNN: scores minus a share of the item's similarity to its nearest bank queries."""

from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.inference.options import NnnOptions as Params
from vse_pipe.ranking.scores import Scores, mean_of_top


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """``x_qn - alpha b_n``; b_n is the mean of item n's min(k, bank) largest similarities to the
    bank's queries.

    Chowdhury et al., Nearest Neighbor Normalization Improves Multimodal Retrieval, EMNLP 2024,
    whose reference bank is the training captions. alpha 0 is nearest-neighbour search, to the
    bit."""
    return item_bias(bank, params).apply(scores)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """The whole correction as one number per item."""
    return ItemBias(1.0, params.alpha * mean_of_top(bank.queries.transposed(), params.k))
