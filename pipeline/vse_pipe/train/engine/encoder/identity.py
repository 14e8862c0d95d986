"""The vectors that an encoder is given, at unit length: no weights."""

from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.core.errors import InputError
from vse_pipe.train.engine.encoder.norm import normalize
from vse_pipe.train.engine.encoder.shapes import check_width


class Identity(nn.Module):
    """(B, D) to (B, D)."""

    def __init__(self, name: str, width: int) -> None:
        super().__init__()
        self.name, self.width = name, width

    def forward(self, vectors: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
        """Raises InputError for vectors of another width."""
        check_width(self.name, vectors, self.width)
        return normalize(vectors)


def build_identity(name: str, width: int, embed_size: int) -> Identity:
    """Raises InputError where the other side would give vectors of another width."""
    if width != embed_size:
        raise InputError(
            f"{name} gives the {width} numbers it is given, the run's vectors have {embed_size}: features and texts must be as "
            "wide, and so must train.embed_size where the other side is trained"
        )
    return Identity(name, width)
