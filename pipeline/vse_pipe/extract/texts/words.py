"""Token ids for an encoder that learns its own word vectors (vsepp and its descendants)."""

from typing import TYPE_CHECKING

from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import WordsOptions as Params

if TYPE_CHECKING:
    from vse_pipe.core.text import Tokens


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The vocabulary of the train and val captions; the authors' is of train and dev. Test words never enter it."""
    from vse_pipe.extract.tokens import build

    return State(words=build(corpus.texts_of("train", "val"), params.min_count))


def transform(texts: list[str], state: State, params: Params) -> tuple["Tokens", int]:
    """The ids of the captions and how many were cut at ``max_words``."""
    from vse_pipe.extract.tokens import encode

    return encode(texts, state.words, params.max_words)


def terms(text: str, params: Params) -> list[str]:
    """The words that are read, of which the vocabulary gives the ids."""
    from vse_pipe.extract.tokens import tokenize

    return tokenize(text)[: params.max_words]
