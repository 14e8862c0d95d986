"""CSLS: scores less the mean similarity of the neighbourhoods they fall in."""

from jaxtyping import Float
from pydantic import PositiveInt
from torch import Tensor

from pipeline.evaluate.scores import Scores
from pipeline.evaluate.top import mean_of_top
from pipeline.params.strict import Strict


class Params(Strict):
    """k: neighbours averaged, captions or images alike (10 in MUSE); two_sided: subtract the query's mean too."""

    k: PositiveInt = 10
    two_sided: bool = True


def rerank(scores: Scores, params: Params) -> Scores:
    """Cross-domain similarity local scaling, ``2 x_qn - r_q - r_n``; r is the mean of the min(k, available) largest
    similarities to the other side (Lample et al., Word translation without parallel data, ICLR 2018).

    Eq. 6 of the RGM paper prints two one-sided forms with unclear index sets; ``two_sided: false`` keeps the item's
    term only. Each query ranks its items the same either way, but a matching, which compares scores of different
    queries, does not: MUSE's form is the default. The neighbourhoods are those of the queries being ranked.
    """
    of_items = mean_of_top(scores.transposed(), params.k)
    of_queries = mean_of_top(scores, params.k) if params.two_sided else None

    def rescore(strip: Float[Tensor, "rows items"], rows: slice) -> Float[Tensor, "rows items"]:
        rescored = 2 * strip - of_items
        return rescored if of_queries is None else rescored - of_queries[rows, None]

    return scores.mapped(rescore)
