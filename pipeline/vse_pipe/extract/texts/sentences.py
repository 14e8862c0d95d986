"""A pre-trained sentence encoder (Sentence-BERT, EMNLP 2019) through sentence-transformers."""

import numpy as np
from jaxtyping import Float32

from vse_pipe.extract import text_methods
from vse_pipe.extract.texts.options import SentencesOptions as Params


def fit(corpus: text_methods.Corpus, params: Params, seed: int) -> text_methods.State:
    return text_methods.load_encoder(params)


def transform(texts: list[str], state: text_methods.State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """The vectors of the encoder, which cuts captions beyond its longest input."""
    vectors = text_methods.encoder(params).encode(
        texts,
        batch_size=params.batch_size,
        normalize_embeddings=params.normalise,
        convert_to_numpy=True,
        show_progress_bar=False,
    )
    return np.asarray(vectors, dtype=np.float32)
