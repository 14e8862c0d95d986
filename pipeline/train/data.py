"""The training pairs as arrays: everything a batch needs is one gather away."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pipeline.seeds import generator
from pipeline.train.vocabulary import Captions


@dataclass(frozen=True)
class Batch:
    """features (B, ...) float32, tokens (B, L) int64 and lengths (B,) int64 on the CPU; pairs (B,) positions."""

    features: Tensor
    tokens: Tensor
    lengths: Tensor
    pairs: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """Caption i is shown with feature row ``rows[i]``; ``array`` may be a memory map of any float type."""

    array: np.ndarray
    rows: np.ndarray
    captions: Captions

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, pairs: np.ndarray) -> Batch:
        tokens, lengths = self.captions.padded(pairs)
        features = np.asarray(self.array[self.rows[pairs]], dtype=np.float32)
        return Batch(torch.from_numpy(features), torch.from_numpy(tokens), torch.from_numpy(lengths), pairs)

    def epoch(self, batch_size: int, seed: int, epoch: int) -> Iterator[Batch]:
        """Every pair once, shuffled by (seed, epoch). A last batch of one is left out: it has no negative."""
        order = generator(seed, "order", epoch).permutation(len(self))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            if len(chosen) > 1:
                yield self.batch(chosen)

    def batches(self, batch_size: int) -> int:
        full, rest = divmod(len(self), batch_size)
        return full + (rest > 1)
