"""The normalisation that ends every global encoder."""

from jaxtyping import Float
from torch import Tensor


def l2norm(vectors: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """``x / sqrt(sum x^2)``. vsepp divides without eps and gives NaN for a zero row; here such a row stays zero."""
    return vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1e-12)
