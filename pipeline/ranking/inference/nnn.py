"""NNN: scores less a share of the item's similarity to its nearest reference queries."""

from pydantic import Field, PositiveInt

from pipeline.core.strict import Strict
from pipeline.ranking.engine.bank import Bank, ItemBias
from pipeline.ranking.engine.bounds import Share
from pipeline.ranking.engine.grid import combinations
from pipeline.ranking.engine.scores import Scores
from pipeline.ranking.engine.top import mean_of_top


class Params(Strict):
    """k: reference queries averaged; alpha: how much of their mean is taken off. 128 and 0.75 are what the authors'
    README uses (their classes default to 256 and 0.5). k_grid, alpha_grid: values to try under evaluate.tune."""

    k: PositiveInt = 128
    alpha: Share = 0.75
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [8, 16, 32, 64, 128, 256])
    alpha_grid: list[Share] = Field(min_length=1, default_factory=lambda: [0.25, 0.5, 0.75, 1.0])

    def candidates(self) -> list["Params"]:
        return combinations(self, k=self.k_grid, alpha=self.alpha_grid)


def rerank(scores: Scores, bank: Bank, params: Params) -> Scores:
    """``x_qn - alpha b_n``; b_n is the mean of item n's min(k, bank) largest similarities to the bank's queries.

    Chowdhury et al., Nearest Neighbor Normalization Improves Multimodal Retrieval, EMNLP 2024, whose reference bank is
    the training captions. alpha 0 is nearest-neighbour search, to the bit.
    """
    return item_bias(bank, params).apply(scores)


def item_bias(bank: Bank, params: Params) -> ItemBias:
    """The whole correction; it is one number an item."""
    return ItemBias(1.0, params.alpha * mean_of_top(bank.queries.transposed(), params.k))
