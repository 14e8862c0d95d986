"""The text side of a pretrained pair (CLIP, SigLIP, MobileCLIP, CoCa): any model of open_clip, one vector a caption."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float32

from vse_pipe.core.errors import IntegrityError
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import OpenClipOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The state of the model, which learns nothing: the seed and the digest of the weights. Raises as ``pair.load``."""
    reader = _reader(params, seed)
    about = {**reader.about, "device": reader.device.type, "precision": reader.precision}
    identity = {"seed": np.array([seed]), "weights": np.frombuffer(_weights(reader.about), dtype=np.uint8)}
    return State(arrays=identity, about=about)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """The vectors of open_clip's ``encode_text``; its tokenizer cuts captions beyond the longest input.

    Raises IntegrityError for other weights than those of ``fit``."""
    reader = _reader(params, state.arrays["seed"].item())
    if _weights(reader.about) != state.arrays["weights"].tobytes():
        raise IntegrityError(
            f"{params.weights}: other weights of open_clip {params.model} than the text features were made with; put the right file there, or extract the texts again"
        )
    return reader.read(texts, params.batch_size, params.normalise)


def _weights(about: dict) -> bytes:
    return bytes.fromhex(about["weights"].get("sha256", ""))


@lru_cache(maxsize=2)  # a mixture has several
def _reader(params: Params, seed: int):
    from vse_pipe.extract.pair import TextTower  # torch

    return TextTower.load(params, seed, params.tokenizer, params.device)
