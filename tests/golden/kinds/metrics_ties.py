"""0-based ranks of the best correct item when scores tie, under three policies."""

import numpy as np
import torch

from tests.golden.compare import exact
from vse_pipe.ranking.metrics.recall import Truth, best_ranks
from vse_pipe.ranking.tiles import top_k


def check(arrays: dict[str, np.ndarray]) -> list[tuple[str, float, float]]:
    scores = torch.from_numpy(arrays["X"])
    truth = Truth.listed(list(arrays["gt"]), scores.shape[1])
    lines = [
        exact(ties, best_ranks(scores, slice(0, len(scores)), truth, ties), arrays[ties])
        for ties in ("optimistic", "pessimistic")
    ]
    return [*lines, exact("stable_reversed", _last_first(scores, truth), arrays["stable_reversed"])]


def _last_first(scores: torch.Tensor, truth: Truth) -> np.ndarray:
    """Position of the first correct item where equal scores come by descending column: top_k of the mirror image."""
    items = scores.shape[1]
    columns = items - 1 - top_k(scores.flip(1), items)[1].numpy()
    rows = np.repeat(np.arange(len(scores)), items)
    return truth.holds(rows, columns.ravel()).reshape(columns.shape).argmax(axis=1)
