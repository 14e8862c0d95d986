"""Vectors at unit length, unchanged otherwise: one side of a pretrained pair."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.core.errors import InputError
from vse_pipe.core.strict import Strict
from vse_pipe.train.heads import check_width, normalize, one_vector


class Identity(nn.Module):
    """(B, D) to (B, D). Raises InputError unless ``width`` is ``embed_size``."""

    def __init__(self, name: str, width: int, embed_size: int) -> None:
        super().__init__()
        if width != embed_size:
            raise InputError(
                f"{name} gives the {width} numbers it is given, the run's vectors have {embed_size}: features and texts must be as "
                "wide, and so must train.embed_size where the other side is trained"
            )
        self.name, self.width = name, width

    def forward(self, vectors: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Raises InputError for vectors of another width."""
        check_width(self.name, vectors, self.width)
        return normalize(vectors)


def build_image(params: Strict, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator) -> Identity:
    """Raises InputError for region features (rows, R, D) too."""
    return Identity("image encoder 'identity'", one_vector("identity", feature_shape), embed_size)


def build_text(params: Strict, inputs: int, embed_size: int, rng: torch.Generator) -> Identity:
    """inputs: width of a caption's vector."""
    return Identity("text encoder 'identity'", inputs, embed_size)
