"""The mean of the word vectors of a caption (Wang et al., CVPR 2016, section 3.1, with word2vec)."""

import numpy as np
from jaxtyping import Float32

from vse_pipe.extract.text_methods import Corpus, State, bags, known_words, splitter
from vse_pipe.extract.texts.options import MeanVectorsOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """Look up the words of the captions; nothing is learnt. Raises InputError for a file that cannot be used."""
    words, vectors, about = known_words(corpus, params)
    return State(words, {"vectors": vectors}, about)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """The mean vector of the known words of each caption; zero for a caption without a known word."""
    counts = bags(map(splitter(params), texts), state.words)
    total = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
    return (counts @ state.arrays["vectors"].astype(np.float64) / np.maximum(total, 1)).astype(np.float32)


def terms(text: str, params: Params) -> list[str]:
    """The words that are looked up."""
    return splitter(params)(text)
