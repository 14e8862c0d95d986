"""Shorter vectors, their first dimensions, and smaller ones, a byte or a bit a dimension."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.ranking.split import Split

EXACT, INT8, BINARY = PRECISIONS = ("float32", "int8", "binary")


def cut_short(vectors: Float[Tensor, "*rows dim"], width: int) -> Float[Tensor, "*rows width"]:
    """The first dimensions of each vector at length 1; at the full width as they are."""
    if width == vectors.shape[-1]:
        return vectors
    return torch.nn.functional.normalize(vectors[..., :width], dim=-1)


def check_width(width: int, full: int, option: str, where: object) -> None:
    """Raises UsageError unless ``width`` is from 1 to ``full``."""
    if not 1 <= width <= full:
        raise UsageError(f"{option} {width}: vectors of {where} have {full} dimensions")


@dataclass(frozen=True)
class Codes:
    """Code c of dimension d, from 0 to 255 (int8) or 0 and 1 (binary), stands for ``low_d + c
    step_d``.

    The inner product of a query with an item is then that of ``step * query`` with the codes, plus
    a number of the query alone, which changes no ranking."""

    precision: str
    low: Float[Tensor, " dim"]
    step: Float[Tensor, " dim"]

    @classmethod
    def fit(cls, precision: str, vectors: Float[Tensor, "rows dim"]) -> "Codes":
        """int8: from the least to the largest value of each dimension, as quantize_embeddings of
        sentence-transformers. binary: the mean of the values above 0, and of the others.

        Raises InputError for equal vectors under int8."""
        if precision == INT8:
            low = vectors.amin(dim=0)
            step = (vectors.amax(dim=0) - low) / 255
            if not step.any():
                raise InputError("int8: the vectors that give its ranges are all equal")
            return cls(precision, low, step)
        above = (vectors > 0).to(vectors)
        low, high = ((vectors * mask).sum(dim=0) / mask.sum(dim=0).clamp_min(1) for mask in (1 - above, above))
        return cls(precision, low, high - low)

    def encode(self, vectors: Float[Tensor, "rows dim"]) -> UInt8[Tensor, "rows dim"]:
        """The nearest codes, within the range; sentence-transformers rounds down."""
        if self.precision == BINARY:
            return (vectors > 0).to(torch.uint8)
        places = (vectors - self.low) / self.step.where(self.step > 0, torch.inf)
        return places.round().clamp(0, 255).to(torch.uint8)

    def decoded(self, vectors: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """The vectors as their codes have them."""
        return self.low + self.encode(vectors).to(self.low) * self.step

    def of_items(self, split: Split, direction: str) -> Split:
        """The split with the items of this direction as their codes have them."""
        name = "captions" if direction == "image_to_text" else "images"
        coded: Any = {name: self.decoded(getattr(split, name))}
        return replace(split, **coded)
