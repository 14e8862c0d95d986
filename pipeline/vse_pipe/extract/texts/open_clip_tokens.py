"""Captions as the pieces of words that an open_clip model reads, for text encoder ``open_clip``."""

import numpy as np

from vse_pipe.core.text import SPECIAL, Tokens
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import OpenClipTokensOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The tokenizer's pieces behind four special words. Raises as ``pair.pair_tokenizer``."""
    from vse_pipe.extract.pair import pair_tokenizer  # torch

    tokenizer, config = pair_tokenizer(params.model, params.tokenizer)
    vocabulary = getattr(tokenizer, "encoder", None) or tokenizer.tokenizer.get_vocab()
    names = {number: piece for piece, number in vocabulary.items()}
    size = config["text_cfg"].get("vocab_size", len(names))
    return State([*SPECIAL, *(names.get(number, f"<{number}>") for number in range(size))])


def transform(texts: list[str], state: State, params: Params) -> tuple[Tokens, int]:
    """The ids of every caption plus 4, padded to the model's input; and how many were cut."""
    from vse_pipe.extract.pair import pair_tokenizer  # torch

    tokenizer, _ = pair_tokenizer(params.model, params.tokenizer)
    blank_first = ["", *texts]
    ids = tokenizer(blank_first).numpy()[1:]
    # A text that just fits leaves one more place empty.
    last = tokenizer(blank_first, context_length=ids.shape[1] + 1).numpy()[:, -1]
    count, length = ids.shape
    starts = np.arange(count) * length
    tokens = Tokens(ids.astype(np.int64).reshape(-1) + len(SPECIAL), starts, np.full(count, length))
    return tokens, int((last[1:] != last[0]).sum())
