"""tf-idf of lemmas without stop words (Wang et al., CVPR 2016, section 3.1)."""

from collections import Counter
from functools import partial

import numpy as np
from jaxtyping import Float32

from vse_pipe.core.errors import InputError
from vse_pipe.extract.text_methods import STOP_WORDS, Corpus, State, bags, tokenize
from vse_pipe.extract.texts.options import TfidfOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The ``size`` most frequent terms of the train captions, ties in word order, and their idf,
    ln((1 + captions) / (1 + captions with the term)) + 1.

    The paper names neither the form of its idf nor the captions that it counts, and lemmatises with
    WordNet, which leaves "running". Raises InputError when no term is left."""
    counts: Counter[str] = Counter()
    holding: Counter[str] = Counter()
    captions = 0
    for text in corpus.texts_of("train"):
        terms_ = terms(text, params)
        counts.update(terms_)
        holding.update(set(terms_))
        captions += 1
    words = sorted(counts, key=lambda word: (-counts[word], word))[: params.size]
    if not words:
        raise InputError("tfidf: no terms are left in the train captions; set stop_words: false")
    idf = np.log((1 + captions) / (1 + np.array([holding[word] for word in words]))) + 1
    return State(words, {"idf": idf}, {"terms": len(counts)})


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions terms"]:
    """Counts times idf, scaled to unit length; zero for a caption without a known term."""
    from sklearn.feature_extraction.text import TfidfTransformer

    weighting = TfidfTransformer()
    weighting.idf_ = state.arrays["idf"]
    counts = bags(map(partial(terms, params=params), texts), state.words)
    return weighting.transform(counts).toarray().astype(np.float32)


def terms(text: str, params: Params) -> list[str]:
    """Lemmas of lower-case tokens with a letter or digit, without stop words on both sides."""
    from simplemma import lemmatize

    tokens = [token for token in tokenize(text) if any(map(str.isalnum, token))]
    stop_words = STOP_WORDS if params.stop_words else ()
    lemmas = [lemmatize(token, lang="en").lower() for token in tokens if token not in stop_words]
    return [lemma for lemma in lemmas if lemma not in stop_words]
