"""Token ids of captions in memory, and the ids that every vocabulary begins with."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

PAD, START, END, UNK = range(4)
SPECIAL = ["<pad>", "<start>", "<end>", "<unk>"]


@dataclass(frozen=True)
class Tokens:
    """Token ids of many captions, end to end: caption i is ``tokens[starts[i] : starts[i] + lengths[i]]``."""

    tokens: Int[np.ndarray, " ids"]
    starts: Int[np.ndarray, " captions"]
    lengths: Int[np.ndarray, " captions"]

    def take(self, chosen: np.ndarray) -> "Tokens":
        """A view of the captions at ``chosen``; the token ids are shared."""
        return Tokens(self.tokens, self.starts[chosen], self.lengths[chosen])

    def padded(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, longest) int64 token ids filled up with PAD, and (n,) lengths, for the captions at ``chosen``."""
        lengths = self.lengths[chosen]
        places = np.arange(lengths.max())
        inside = places < lengths[:, None]
        index = np.where(inside, self.starts[chosen][:, None] + places, 0)
        return np.where(inside, self.tokens[index], PAD).astype(np.int64, copy=False), lengths
