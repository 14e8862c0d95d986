"""CSLS: scores minus the mean similarity of both neighbourhoods."""

from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.inference.options import CslsOptions as Params
from vse_pipe.ranking.scores import Scores, mean_of_top, top_k


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """Cross-domain similarity local scaling, ``2 x_qn - r_q - r_n`` (Lample et al., Word
    translation without parallel data, ICLR 2018). r_q is the mean of the query's min(k, available)
    largest similarities to the items, r_n that of the item's to the bank's queries.

    Eq. 6 of the RGM paper prints two one-sided forms with unclear index sets; ``two_sided: false``
    keeps only the item's term. The ranking of a query is the same in both forms, but a matching,
    which compares scores of different queries, is not: MUSE's form is the default."""
    items = item_bias(bank, params)
    if not params.two_sided:
        return items.apply(scores)

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        # A strip has whole rows, so the queries' term needs no extra pass.
        return (2 * strip).sub_(items.bias.to(strip)).sub_(top_k(strip, params.k)[0].mean(dim=1, keepdim=True))

    return scores.mapped(rescore, correction=items.corrected)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """``2 x_qn - r_n``, which ranks the items of a query as ``rerank`` does."""
    return ItemBias(2.0, mean_of_top(bank.queries.transposed(), params.k))
