"""What a method of text features is given and what it learns.

A member has ``Params``, ``TRAITS``, ``fit(corpus, params, seed) -> State`` and ``transform(texts, state, params)``, which
treats any captions, seen or not, with what ``fit`` learnt: (n, D) float32 vectors, or the token ids and the number of
captions cut. One with a vocabulary has ``terms(text, params)``: what it looks up there, in the order of the text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Corpus:
    """The captions of a data set and the split of each, in the order of captions.parquet. Both can be gone through any number of
    times, and need not be in memory."""

    texts: Iterable[str]
    splits: Iterable[str]

    def of(self, *splits: str) -> Iterator[str]:
        """The captions of these splits, in order."""
        return (text for text, split in zip(self.texts, self.splits, strict=True) if split in splits)


@dataclass(frozen=True)
class State:
    """words: the vocabulary, its order is that of the arrays' rows; arrays: learnt, by name; about: for meta.json."""

    words: list[str] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    about: dict = field(default_factory=dict)
