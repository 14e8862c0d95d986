"""Captions as the pieces of words that a model of open_clip reads, for text encoder ``open_clip``."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from vse_pipe.core.text import SPECIAL, Tokens
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import OpenClipTokensOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The pieces that the tokenizer knows, behind this project's four special words. Raises as ``pair.pair_tokenizer``."""
    tokenizer, config = _opened(params)
    vocabulary = getattr(tokenizer, "encoder", None) or tokenizer.tokenizer.get_vocab()
    names = {number: piece for piece, number in vocabulary.items()}
    size = config["text_cfg"].get("vocab_size", len(names))
    return State([*SPECIAL, *(names.get(number, f"<{number}>") for number in range(size))])


def transform(texts: list[str], state: State, params: Params) -> tuple[Tokens, int]:
    """The ids of every caption plus 4, as long as the model's input, with its padding; and the number of cut captions."""
    tokenizer, _ = _opened(params)
    ids = tokenizer(texts).numpy() if texts else np.zeros((0, tokenizer.context_length), np.int64)
    count, length = ids.shape
    starts = np.arange(count) * length
    tokens = Tokens(ids.astype(np.int64).reshape(-1) + len(SPECIAL), starts, np.full(count, length))
    return tokens, cut_captions(texts, params)


def cut_captions(texts: list[str], params: Params) -> int:
    """The number of captions beyond the longest input."""
    from vse_pipe.extract import pair  # torch

    return pair.cut_captions(_opened(params)[0], texts)


@lru_cache(maxsize=2)
def _cached(model: str, tokenizer: str | None) -> tuple[Any, dict]:
    from vse_pipe.extract import pair  # torch

    config = pair.model_config(model)
    return pair.pair_tokenizer(config, Path(tokenizer).expanduser() if tokenizer else None, model), config


def _opened(params: Params) -> tuple[Any, dict]:
    return _cached(params.model, params.tokenizer)
