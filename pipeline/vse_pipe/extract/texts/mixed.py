"""The concatenated vectors of several methods, for example tf-idf and a sentence encoder."""

from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np
from jaxtyping import Float32

from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import MixedOptions as Params
from vse_pipe.project.registry import TEXT_FEATURES

# The array of the state with the number of words of each part.
_COUNTS = "words"


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The states of all parts in one: arrays are named by their part, words concatenated."""
    states = [TEXT_FEATURES.load(part.method).fit(corpus, part.options, seed) for part in params.parts]
    arrays = {f"{place}.{name}": array for place, part in enumerate(states) for name, array in part.arrays.items()}
    arrays[_COUNTS] = np.array([len(part.words) for part in states])
    return State([word for part in states for word in part.words], arrays, {"parts": [part.about for part in states]})


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """The vectors of the parts, each of unit length times its weight; zero without a known word."""
    blocks = []
    for part, learnt in zip(params.parts, _learnt(state), strict=True):
        rows = TEXT_FEATURES.load(part.method).transform(texts, learnt, part.options)
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        blocks.append((part.weight * rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32))
    return np.concatenate(blocks, axis=1)


def _learnt(state: State) -> Iterator[State]:
    """The state of each part."""
    for place, (start, end) in enumerate(pairwise(accumulate(state.arrays[_COUNTS].tolist(), initial=0))):
        prefix = f"{place}."
        arrays = {name: array for name, array in state.arrays.items() if name.startswith(prefix)}
        yield State(state.words[start:end], {name.removeprefix(prefix): array for name, array in arrays.items()})
