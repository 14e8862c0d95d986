"""Order: the violation of an order in which a caption is more general than its image and lies nearer to the origin."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from vse_pipe.ranking import kernels
from vse_pipe.ranking.fragments import over_rows
from vse_pipe.ranking.similarities.options import OrderOptions as Params

# Differences in memory where PyTorch computes them: 64 MiB of float32.
_AT_ONCE = 1 << 24


def score(
    images: Float[Tensor, "images dim"], texts: Float[Tensor, "texts dim"], params: Params
) -> Float[Tensor, "images texts"]:
    """``-|| max(0, text - image) ||``: 0 where no coordinate of the text exceeds the image's, negative otherwise.

    Vendrov et al., Order-embeddings of images and language, ICLR 2016, Eq. 2. The vectors should not be negative
    (``use_abs``). At a violation of 0 the root passes a gradient of 0; the authors' code passes NaN. On the CPU a
    compiled loop stores no differences. First-order gradients only. Raises ValueError for vectors of different lengths.
    """
    looped = images.device.type == "cpu" and images.dtype == texts.dtype in (torch.float32, torch.float64)
    squared = _Squared.apply(images, texts) if looped else _squared(images, texts)
    if not params.root:
        return -squared
    none = squared == 0
    return -torch.where(none, 0.0, squared.where(~none, 1.0).sqrt())


def _squared(images: Tensor, texts: Tensor) -> Tensor:
    width = max(1, _AT_ONCE // max(1, images.numel()))
    parts = [(part[None] - images[:, None]).relu().square().sum(dim=2) for part in texts.split(width)]
    return torch.cat(parts, dim=1)


class _Squared(torch.autograd.Function):
    """``_squared`` by compiled loops."""

    @staticmethod
    def forward(ctx, images, texts):
        if images.shape[1] != texts.shape[1]:
            raise ValueError(f"images have {images.shape[1]} numbers and texts {texts.shape[1]}")
        ctx.save_for_backward(images, texts)
        out = images.new_empty(len(images), len(texts))
        rows, columns, sums = (tensor.detach().contiguous().numpy() for tensor in (images, texts, out))
        over_rows(lambda start, stop: kernels.sum_squares(rows[start:stop], columns, sums[start:stop]), len(rows))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        images, texts = (tensor.contiguous() for tensor in ctx.saved_tensors)
        for_images, for_texts = ctx.needs_input_grad
        return (
            _gradient(images, texts, -2 * grad, False) if for_images else None,
            _gradient(texts, images, 2 * grad.t(), True) if for_texts else None,
        )


def _gradient(vectors: Tensor, opposites: Tensor, weights: Tensor, texts: bool) -> Tensor:
    """The gradient of one side. weights: (vectors, opposites); texts: whether ``vectors`` are the texts."""
    out = torch.zeros_like(vectors)
    rows, columns, factors, sums = (tensor.numpy() for tensor in (vectors, opposites, weights.contiguous(), out))

    def work(start: int, stop: int) -> None:
        kernels.add_weighted(rows[start:stop], columns, factors[start:stop], texts, sums[start:stop])

    over_rows(work, len(rows))
    return out
