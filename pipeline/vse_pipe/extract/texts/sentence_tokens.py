"""The vectors of all tokens of a sentence encoder before pooling: fragments of a caption."""

import numpy as np
from jaxtyping import Float32, Int64

from vse_pipe.extract import text_methods
from vse_pipe.extract.texts.options import SentenceTokensOptions as Params


def fit(corpus: text_methods.Corpus, params: Params, seed: int) -> text_methods.State:
    return text_methods.load_encoder(params)


def transform(
    texts: list[str], state: text_methods.State, params: Params
) -> tuple[Float32[np.ndarray, "tokens dim"], Int64[np.ndarray, " captions"]]:
    """The tokens of all captions, and how many each has; the encoder cuts long captions."""
    model = text_methods.encoder(params)
    outputs = model.encode(
        texts, batch_size=params.batch_size, output_value="token_embeddings", show_progress_bar=False
    )
    rows = [row.float().cpu().numpy() for row in outputs]
    vectors = np.concatenate(rows)
    if params.normalise:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors / np.where(lengths > 0, lengths, 1.0)
    return vectors.astype(np.float32), np.array([len(row) for row in rows])
