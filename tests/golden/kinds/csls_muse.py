"""MUSE's get_nn_avg_dist for both sides, and the scores made from it."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import csls
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import mean_of_top


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    query, items = torch.from_numpy(arrays["query"]), torch.from_numpy(arrays["items"])
    scores, k = Scores.of(query, items, lambda left, right: left @ right.T), int(arrays["k"])
    rescored = csls.rerank(scores, Bank(scores, is_transductive=True), csls.Params(k=k))
    return [
        compare("r_query", mean_of_top(scores, k), arrays["r_query"]),
        compare("r_item", mean_of_top(scores.transposed(), k), arrays["r_item"]),
        compare("scores", torch.cat([block for _, block in rescored.blocks()]), arrays["scores"]),
    ]
