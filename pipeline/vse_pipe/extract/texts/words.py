"""Token ids for an encoder that learns its own word vectors (vsepp and its descendants)."""

from vse_pipe.core.text import Tokens
from vse_pipe.extract.text_methods import Corpus, State, build_vocabulary, encode, tokenize
from vse_pipe.extract.texts.options import WordsOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The vocabulary of the train and val captions, as of the authors; none of test alone."""
    return State(words=build_vocabulary(corpus.texts_of("train", "val"), params.min_count))


def transform(texts: list[str], state: State, params: Params) -> tuple[Tokens, int]:
    """The ids of the captions, and the number of captions that were cut at ``max_words``."""
    return encode(texts, state.words, params.max_words)


def terms(text: str, params: Params) -> list[str]:
    """The words that are looked up."""
    return tokenize(text)[: params.max_words]
