"""The mean of a caption's word vectors (Wang et al., CVPR 2016, section 3.1, word2vec)."""

import numpy as np
from jaxtyping import Float32

from vse_pipe.extract.text_methods import Corpus, State, bags, known_words, tokenize
from vse_pipe.extract.texts.options import MeanVectorsOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """Look up the words of the captions. Raises InputError for a file that cannot be used."""
    words, vectors, about = known_words(corpus, params)
    return State(words, {"vectors": vectors}, about)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """The mean vector of a caption's known words; zero for a caption without one."""
    counts = bags(map(tokenize, texts), state.words)
    total = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
    return (counts @ state.arrays["vectors"].astype(np.float64) / np.maximum(total, 1)).astype(np.float32)


def terms(text: str, params: Params) -> list[str]:
    """The words that are looked up."""
    return tokenize(text)
