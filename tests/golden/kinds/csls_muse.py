"""MUSE's get_nn_avg_dist for both sides, and the scores made from it."""

import numpy as np
import torch

from pipeline.evaluate.inference import csls
from pipeline.evaluate.scores import Scores
from pipeline.evaluate.top import mean_of_top
from tests.golden.kinds._ranking import FLOAT32, Line, line


def check(arrays: dict[str, np.ndarray]) -> list[Line]:
    query, items = torch.from_numpy(arrays["query"]), torch.from_numpy(arrays["items"])
    scores, k = Scores.of(query, items, lambda left, right: left @ right.T), int(arrays["k"])
    rescored = csls.rerank(scores, csls.Params(k=k))
    return [
        line("r_query", mean_of_top(scores, k), arrays["r_query"], FLOAT32),
        line("r_item", mean_of_top(scores.transposed(), k), arrays["r_item"], FLOAT32),
        line("scores", torch.cat([block for _, block in rescored.blocks()]), arrays["scores"], FLOAT32),
    ]
