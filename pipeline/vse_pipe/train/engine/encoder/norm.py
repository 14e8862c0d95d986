"""The three normalisations of the field: one for each family of models, each with its own guard against zero rows."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def l2norm(vectors: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """``x / sqrt(sum x^2)``: global models (vsepp, HAL ``l2norm``).

    The authors divide without eps and get NaN for a zero row, forward and backward; here such a row stays zero and
    its gradient passes unscaled.
    """
    lengths = vectors.norm(dim=-1, keepdim=True)
    return vectors / lengths.masked_fill(lengths == 0, 1.0)


def l2norm_eps(vectors: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """``x / (sqrt(sum x^2) + 1e-8)``: words and regions of local models (SCAN, SGRAF, L2RM ``l2norm``).

    The eps is added to the length, so that unit vectors are short of 1 by 1e-8 and zero rows (padding) stay zero.
    """
    return vectors / (vectors.norm(dim=-1, keepdim=True) + 1e-8)


def normalize(vectors: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """``x / max(sqrt(sum x^2), 1e-12)``: two-branch networks (PyTorch's ``normalize``, as their authors call it)."""
    return functional.normalize(vectors, dim=-1)
