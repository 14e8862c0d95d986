"""Dual inverted softmax: an item is penalised for being near to the bank's queries and near to the bank's items."""

from pydantic import Field

from pipeline.core.strict import Strict
from pipeline.ranking.engine.bank import Bank, ItemBias, log_sum_exp
from pipeline.ranking.engine.bounds import InverseTemperature
from pipeline.ranking.engine.grid import combinations
from pipeline.ranking.engine.scores import Scores


class Params(Strict):
    """beta: inverse temperature of the query bank; gallery_beta: of the gallery bank. The authors' code has 1/1.99 and
    3, which leave cosine scores all but as they are; 50 and 1 are the values of the DBSN repository (temperature 0.02
    and 1). beta_grid, gallery_beta_grid: values to try under evaluate.tune."""

    beta: InverseTemperature = 50.0
    gallery_beta: InverseTemperature = 1.0
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    gallery_beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [0.5, 1.0, 3.0, 10.0]
    )

    def candidates(self) -> list["Params"]:
        return combinations(self, beta=self.beta_grid, gallery_beta=self.gallery_beta_grid)


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
    of_queries = log_sum_exp(bank.queries, params.beta)
    of_items = log_sum_exp(bank.items(), params.gallery_beta, but_itself=bank.own)
    return ItemBias(params.beta + params.gallery_beta, of_queries + of_items)
