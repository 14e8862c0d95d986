"""Where the first correct box of each mention stands among the proposals of its picture."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float32, Int

from vse_pipe.localize.engine.scenes import BoxScene
from vse_pipe.ranking import boxes

Mentions = Float[np.ndarray, " mentions"]


@dataclass(frozen=True)
class Ranks:
    """By mention. candidates: proposals of its picture; correct: of these, those that overlap its box by the threshold.

    rank: 1 = best, of the first correct one, NaN: none is; a wrong one with the same score stands before it. bound: the
    largest IoU of a candidate. best: its row among the proposals, -1 where there is none; score and iou are its own.
    """

    candidates: Int[np.ndarray, " mentions"]
    correct: Int[np.ndarray, " mentions"]
    rank: Mentions
    bound: Mentions
    best: Int[np.ndarray, " mentions"]
    score: Float32[np.ndarray, " mentions"]
    iou: Mentions

    @classmethod
    def of(cls, scene: BoxScene, threshold: float) -> "Ranks":
        """Those of one picture."""
        count, proposed = scene.scores.shape
        if not proposed:
            nothing, none = np.full(count, np.nan), np.zeros(count, np.int64)
            return cls(none, none, nothing, np.zeros(count), none - 1, nothing.astype(np.float32), nothing)
        overlap = boxes.iou(scene.truth, scene.boxes)
        hit = overlap >= threshold
        first = scene.scores.masked_fill(~hit, -torch.inf).amax(dim=1, keepdim=True)
        rank = 1.0 + ((scene.scores > first) | ((scene.scores == first) & ~hit)).sum(dim=1).double()
        best = scene.scores.argmax(dim=1)
        rows = torch.arange(count)
        columns = (
            hit.sum(dim=1),
            rank.masked_fill(~hit.any(dim=1), torch.nan),
            overlap.amax(dim=1),
            best + scene.proposals.start,
            scene.scores[rows, best],
            overlap[rows, best],
        )
        return cls(np.full(count, proposed), *(column.numpy() for column in columns))

    def hits(self, k: int) -> Mentions:
        """1.0 where a correct candidate is among the best k."""
        return (self.rank <= k).astype(np.float64)

    def chance(self, k: int) -> Mentions:
        """How likely a correct candidate is among k that are drawn at random: 1 - C(wrong, k) / C(candidates, k)."""
        missed = np.ones(len(self.rank))
        for drawn in range(k):
            missed *= np.maximum(self.candidates - self.correct - drawn, 0) / np.maximum(self.candidates - drawn, 1)
        return np.where(self.correct > 0, 1.0 - missed, 0.0)

    def take(self, chosen: np.ndarray) -> "Ranks":
        """Of some mentions: a mask or places."""
        return Ranks(**{name: values[chosen] for name, values in vars(self).items()})


def joined(parts: list[Ranks]) -> Ranks:
    return Ranks(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in Ranks.__annotations__})
