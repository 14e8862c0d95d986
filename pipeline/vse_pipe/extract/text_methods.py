"""What a method of text features is given and what it learns.

A member has ``Params``, ``TRAITS``, ``fit(corpus, params, seed) -> State`` and ``transform(texts, state, params)``, which
treats any captions, seen or not, with what ``fit`` learnt: (n, D) float32 vectors, or the token ids and the number of
captions cut. One with a vocabulary has ``terms(text, params)``: what it looks up there, in the order of the text.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from vse_pipe.core.errors import MissingResource
from vse_pipe.extract.texts.options import EncoderParams


@dataclass(frozen=True)
class Corpus:
    """The captions of a data set and the split of each, in the order of captions.parquet. Both can be gone through any number of
    times, and need not be in memory."""

    texts: Iterable[str]
    splits: Iterable[str]

    def texts_of(self, *splits: str) -> Iterator[str]:
        """The captions of these splits, in order."""
        return (text for text, split in zip(self.texts, self.splits, strict=True) if split in splits)


@dataclass(frozen=True)
class State:
    """words: the vocabulary, its order is that of the arrays' rows; arrays: learnt, by name; about: for meta.json."""

    words: list[str] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    about: dict = field(default_factory=dict)


# Of a model on the hub; no pickles.
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]


def load_encoder(params: EncoderParams) -> State:
    """Load the encoder; nothing is learnt. Raises MissingResource when the package or the weights are not there."""
    from vse_pipe.core.console import warn

    model = encoder(params)
    if params.revision is None and not Path(params.model).expanduser().is_dir():
        warn(f"the model {params.model} is not pinned; set revision to a commit of its repository")
    about = {"device": model.device.type, "longest": model.max_seq_length}
    return State(about={key: value for key, value in about.items() if value is not None})


def encoder(params: EncoderParams):
    """The encoder, loaded once."""
    return _loaded(params.model, params.revision, params.device)


@lru_cache(maxsize=4)  # of the parts of a mixture
def _loaded(name: str, revision: str | None, device: str):
    """Safetensors only, and no code that comes with a model is run."""
    from vse_pipe.core.devices import resolve_device

    chosen = resolve_device(device)
    try:
        from huggingface_hub import snapshot_download
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingResource(
            "text features of a sentence encoder need the package sentence-transformers, which is not installed: "
            "pip install 'vse-pipe[sentences]'"
        ) from error
    folder = Path(name).expanduser()
    try:
        # All files at once: the encoder would ask for one after the other, and wait half a minute for each that it cannot have.
        path = folder if folder.is_dir() else snapshot_download(name, revision=revision, allow_patterns=_FILES)
        return SentenceTransformer(
            str(path),
            device=str(chosen),
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise MissingResource(
            f"sentence encoder '{name}' cannot be loaded ({reason}); model is a folder with a sentence-transformers model "
            "in safetensors files, or a name on the model hub that can be reached or is in its cache"
        ) from error
