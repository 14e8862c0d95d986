"""Tokens of captions in memory, and the ids that every vocabulary begins with."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

PAD, START, END, UNK = range(4)
SPECIAL = ["<pad>", "<start>", "<end>", "<unk>"]


@dataclass(frozen=True)
class Tokens:
    """Token ids of many captions, or a vector for each token, end to end: caption i is
    ``tokens[starts[i] : starts[i] + lengths[i]]``."""

    tokens: Int[np.ndarray, " ids"] | Float[np.ndarray, "ids dim"]
    starts: Int[np.ndarray, " captions"]
    lengths: Int[np.ndarray, " captions"]

    def take(self, chosen: np.ndarray) -> "Tokens":
        """A view of the captions at ``chosen``; the token ids are shared."""
        return Tokens(self.tokens, self.starts[chosen], self.lengths[chosen])

    def padded(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, longest) int64 token ids filled up with PAD, or (n, longest, dim) float32 vectors filled up with 0, and (n,)
        lengths, for the captions at ``chosen``."""
        lengths = self.lengths[chosen]
        places = np.arange(lengths.max())
        inside = places < lengths[:, None]
        index = np.where(inside, self.starts[chosen][:, None] + places, 0)
        if self.tokens.ndim == 2:
            return np.where(inside[..., None], self.tokens[index], 0).astype(np.float32, copy=False), lengths
        return np.where(inside, self.tokens[index], PAD).astype(np.int64, copy=False), lengths
