"""NNNRanker of the authors' repository: bias of each item and scores after it."""

import numpy as np
import torch

from tests.golden.compare import compare
from vse_pipe.ranking.bank import Bank
from vse_pipe.ranking.inference import nnn
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.tiles import mean_of_top


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    query, items, reference = (torch.from_numpy(arrays[name]) for name in ("query", "items", "reference"))
    params = nnn.Params(k=int(arrays["k"]), alpha=float(arrays["alpha"]))
    scores, bank = (Scores.of(side, items, lambda left, right: left @ right.T) for side in (query, reference))
    rescored = nnn.rerank(scores, Bank(bank, False), params)
    return [
        compare("bias", mean_of_top(bank.transposed(), params.k), arrays["bias"]),
        compare("scores", torch.cat([block for _, block in rescored.blocks()]), arrays["scores"]),
    ]
