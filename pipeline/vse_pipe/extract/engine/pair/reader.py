"""The text tower of a pretrained pair, from sentences to vectors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32
from torch.nn import functional

from vse_pipe.core import devices
from vse_pipe.extract.engine.pair import model, published
from vse_pipe.extract.engine.pair.params import PairParams


@dataclass(frozen=True)
class TextTower:
    """tokens: n sentences to token ids (n, L); dimensions: of a vector; about: of the pair, for meta.json."""

    tower: model.Tower
    tokens: Callable[[list[str]], torch.Tensor]
    dimensions: int
    about: dict
    device: torch.device
    precision: str

    @classmethod
    def load(cls, options: PairParams, seed: int, tokenizer: Path | None, device: str) -> "TextTower":
        """Raises as ``model.load`` and ``model.tokenizer``."""
        where, config = devices.resolve_device(device), published.architecture(options).content["model_cfg"]
        tokens = model.tokenizer(config, tokenizer, options.model)  # first: a model takes longer to build
        pair = model.load(options, seed)
        tower = model.Tower(pair.model, "text").to(where)
        return cls(
            tower, tokens, pair.dimensions, pair.about, where, devices.resolve_precision(options.precision, where)
        )

    def read(self, texts: Sequence[str], batch: int, normalise: bool) -> Float32[np.ndarray, "captions dim"]:
        """A row a sentence, ``batch`` of them in one forward pass."""
        rows = [np.zeros((0, self.dimensions), np.float32)]
        with devices.inference(self.device, self.precision):
            for start in range(0, len(texts), batch):
                ids = self.tokens(list(texts[start : start + batch]))
                found = self.tower(ids.to(self.device)).float()
                rows.append((functional.normalize(found, dim=-1) if normalise else found).cpu().numpy())
        return np.concatenate(rows)
