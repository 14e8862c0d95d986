"""The text side of a pretrained pair (CLIP, SigLIP, MobileCLIP, CoCa), one vector a caption."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float32

from vse_pipe.core.errors import IntegrityError
from vse_pipe.extract.text_methods import Corpus, State
from vse_pipe.extract.texts.options import OpenClipOptions as Params


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """The model's state: the seed and the digest of the weights. Raises as ``pair.load``."""
    side = _text_side(params, seed)
    about = {**side.about, "device": side.device.type, "precision": side.precision}
    identity = {"seed": np.array([seed]), "weights": np.frombuffer(side.weights, dtype=np.uint8)}
    return State(arrays=identity, about=about)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """The vectors of open_clip's ``encode_text``; its tokenizer cuts captions beyond the longest
    input.

    Raises IntegrityError for other weights than those of ``fit``."""
    from torch.nn.functional import normalize

    from vse_pipe.core import devices

    side = _text_side(params, state.arrays["seed"].item())
    if side.weights != state.arrays["weights"].tobytes():
        raise IntegrityError(
            f"{params.weights}: other weights of open_clip {params.model} than the text features "
            "were made with; put the right file there, or extract the texts again"
        )
    rows = [np.zeros((0, side.dimensions), np.float32)]
    with devices.inference(side.device, side.precision):
        for start in range(0, len(texts), params.batch_size):
            ids = side.tokens(texts[start : start + params.batch_size])
            vectors = side.tower(ids.to(side.device)).float()
            rows.append((normalize(vectors, dim=-1) if params.normalise else vectors).cpu().numpy())
    return np.concatenate(rows)


@dataclass(frozen=True)
class _TextSide:
    """tower: token ids to vectors; tokens: n sentences to ids (n, L); about: for meta.json."""

    tower: Any
    tokens: Any
    dimensions: int
    about: dict
    device: Any
    precision: str

    @property
    def weights(self) -> bytes:
        """Their digest, empty for random ones."""
        return bytes.fromhex(self.about["weights"].get("sha256", ""))


@lru_cache(maxsize=2)  # a mixture has several
def _text_side(params: Params, seed: int) -> _TextSide:
    from vse_pipe.core import devices
    from vse_pipe.extract import pair  # torch

    device = devices.resolve_device(params.device)
    tokens, _ = pair.pair_tokenizer(params.model, params.tokenizer)  # a model takes longer to build
    loaded = pair.load(params, seed)
    tower = pair.Tower(loaded.model, "text").to(device)
    precision = devices.resolve_precision(params.precision, device)
    return _TextSide(tower, tokens, loaded.dimensions, loaded.about, device, precision)
