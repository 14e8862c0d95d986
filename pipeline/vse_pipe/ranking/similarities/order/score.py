"""Order violations of all images and texts."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from vse_pipe.ranking.engine.threads import over_rows
from vse_pipe.ranking.similarities.order import Params

# Differences held at once where PyTorch computes them: 64 MiB of float32.
_AT_ONCE = 1 << 24


def score(
    images: Float[Tensor, "images dim"], texts: Float[Tensor, "texts dim"], params: Params
) -> Float[Tensor, "images texts"]:
    """``-|| max(0, text - image) ||``: 0 where no coordinate of the text exceeds the image's, negative otherwise.

    Vendrov et al., Order-embeddings of images and language, ICLR 2016, Eq. 2. The vectors should not be negative
    (``use_abs``). At a violation of 0 the root passes a gradient of 0; the authors' passes NaN. On the CPU a compiled loop
    holds no differences; gradients are of the first order only. Raises ValueError for vectors of other lengths.
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
    """What ``_squared`` returns."""

    @staticmethod
    def forward(ctx, images, texts):
        from vse_pipe.ranking.similarities.order import compiled  # numba takes half a second to import

        if images.shape[1] != texts.shape[1]:
            raise ValueError(f"images have {images.shape[1]} numbers and texts {texts.shape[1]}")
        ctx.save_for_backward(images, texts)
        out = images.new_empty(len(images), len(texts))
        seen, read, found = (one.detach().contiguous().numpy() for one in (images, texts, out))
        over_rows(lambda start, stop: compiled.squared(seen[start:stop], read, found[start:stop]), len(seen))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        images, texts = (one.contiguous() for one in ctx.saved_tensors)
        seen, read = ctx.needs_input_grad
        return (
            _half(images, texts, -2 * grad, False) if seen else None,
            _half(texts, images, 2 * grad.t(), True) if read else None,
        )


def _half(own: Tensor, others: Tensor, weights: Tensor, texts: bool) -> Tensor:
    from vse_pipe.ranking.similarities.order import compiled

    out = torch.zeros_like(own)
    mine, theirs, weight, found = (one.numpy() for one in (own, others, weights.contiguous(), out))

    def work(start: int, stop: int) -> None:
        compiled.gathered(mine[start:stop], theirs, weight[start:stop], texts, found[start:stop])

    over_rows(work, len(mine))
    return out
