"""Captions as counts of words, and the words that a file of word vectors knows."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Float32
from scipy.sparse import csr_array

from vse_pipe.core.word_vectors import read
from vse_pipe.extract.text_engine.method import Corpus
from vse_pipe.extract.text_engine.params import WordVectorParams
from vse_pipe.extract.text_engine.tokens import split


def bags(texts: Iterable[Iterable[str]], words: list[str]) -> csr_array:
    """(captions, words) float64: how often each word of ``words`` occurs in each tokenised caption; others count nowhere."""
    ids = {word: place for place, word in enumerate(words)}
    counts = [Counter(ids[token] for token in tokens if token in ids) for tokens in texts]
    ends = np.cumsum([0, *map(len, counts)])
    columns = np.fromiter((word for count in counts for word in count), np.int64, ends[-1])
    values = np.fromiter((number for count in counts for number in count.values()), np.float64, ends[-1])
    return csr_array((values, columns, ends), shape=(len(counts), len(words)))


def splitter(params: WordVectorParams) -> Callable[[str], list[str]]:
    """The tokenizer that a method's options ask for."""
    return lambda text: split(text.lower() if params.lower else text)


def known_words(corpus: Corpus, params: WordVectorParams) -> tuple[list[str], Float32[np.ndarray, "words dim"], dict]:
    """Words of all captions that have a vector, in word order, their vectors, and how many there are for meta.json.

    Of all splits: a word is looked up, nothing is learnt from it here.
    """
    tokens = splitter(params)
    counts = Counter(token for text in corpus.texts for token in tokens(text))
    words, vectors = read(params.path, counts.keys(), params.names)
    if params.unit:
        # In float64: the square of 1e20 is infinite as float32, and the vector would be zero.
        lengths = np.sqrt(np.einsum("wd,wd->w", vectors, vectors, dtype=np.float64))
        vectors = (vectors / np.where(lengths > 0, lengths, 1.0)[:, None]).astype(np.float32)
    found = sum(counts[word] for word in words)
    about = {
        "known_words": len(words),
        "unknown_words": len(counts) - len(words),
        "known_share_of_text": found / counts.total(),
    }
    return words, vectors, {"words": about}
