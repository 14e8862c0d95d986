"""The captions' side of a pretrained pair (CLIP, SigLIP, MobileCLIP, CoCa): any model of open_clip, one vector a caption."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float32
from pydantic import PositiveInt

from vse_pipe.core.errors import IntegrityError
from vse_pipe.extract.engine.pair.params import PairParams
from vse_pipe.extract.text_engine.method import Corpus, State
from vse_pipe.extract.text_engine.params import VectorParams
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.traits import TextFeatureTraits

TRAITS = TextFeatureTraits(libraries=("open_clip_torch", "torch"))


class Params(PairParams, VectorParams):
    """Features of backbone ``open_clip`` with the same model and weights are its images' side."""

    tokenizer: str | None = None
    """of architectures whose tokenizer does not come with open_clip (SigLIP): the folder with its files"""
    batch_size: PositiveInt = 64
    """captions in one forward pass"""
    normalise: bool = True
    """unit length"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N"""

    def files(self) -> dict[Path, str]:
        found = {path: "" for path in (self.described, *self._of_tokenizer()) if path is not None}
        return found | ({} if self.file is None else {self.file: self.sha256 or ""})

    def reads(self) -> list[SourceFiles]:
        tokenizer = [SourceFiles(Path(self.tokenizer).expanduser(), patterns=("*",))] if self.tokenizer else []
        return [*PairParams.reads(self), *tokenizer]

    def _of_tokenizer(self) -> list[Path]:
        folder = Path(self.tokenizer).expanduser() if self.tokenizer else None
        return sorted(path for path in folder.iterdir() if path.is_file()) if folder and folder.is_dir() else []


def fit(corpus: Corpus, params: Params, seed: int) -> State:
    """Load the model; nothing is learnt. What is kept says which weights it has. Raises as ``pair.model.load``."""
    reader = _reader(params, seed)
    about = {**reader.about, "device": reader.device.type, "precision": reader.precision}
    kept = {"seed": np.array([seed]), "weights": np.frombuffer(_weights(reader.about), dtype=np.uint8)}
    return State(arrays=kept, about=about)


def transform(texts: list[str], state: State, params: Params) -> Float32[np.ndarray, "captions dim"]:
    """open_clip's ``encode_text``; captions beyond its longest input are cut by its tokenizer.

    Raises IntegrityError where the weights are not those that ``fit`` had."""
    reader = _reader(params, state.arrays["seed"].item())
    if _weights(reader.about) != state.arrays["weights"].tobytes():
        raise IntegrityError(
            f"{params.weights}: other weights of open_clip {params.model} than the text features were made with; put the "
            "right file there, or extract the texts again"
        )
    return reader.read(texts, params.batch_size, params.normalise)


def _weights(about: dict) -> bytes:
    return bytes.fromhex(about["weights"].get("sha256", ""))


@lru_cache(maxsize=2)  # of the parts of a mixture
def _reader(params: Params, seed: int):
    from vse_pipe.extract.engine.pair.reader import TextTower  # torch

    folder = Path(params.tokenizer).expanduser() if params.tokenizer else None
    return TextTower.load(params, seed, folder, params.device)
