"""The mean of the word vectors of a caption (Wang et al., CVPR 2016, section 3.1, with word2vec)."""

import numpy as np
from jaxtyping import Float32

from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import MeanVectorsOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """Look up the words of the captions; nothing is learnt. Raises InputError for a file that cannot be used."""
    from vse_pipe.extract.tokens import known_words

    words, vectors, about = known_words(corpus, params)
    return State(words, {"vectors": vectors}, about)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """Words without a vector are skipped; a caption without any known word is the zero vector."""
    from vse_pipe.extract.tokens import bags, splitter

    counts = bags(map(splitter(params), texts), state.words)
    total = np.asarray(counts.sum(axis=1)).reshape(-1, 1)
    means = counts @ state.arrays["vectors"].astype(np.float64) / np.maximum(total, 1)
    return means.astype(np.float32)


def terms(text: str, params: Params) -> list[str]:
    """The words that are looked up among the known ones."""
    from vse_pipe.extract.tokens import splitter

    return splitter(params)(text)
