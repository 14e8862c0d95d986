"""Order embeddings: the violation of an order with captions nearer to the origin."""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from vse_pipe.ranking.similarities.options import OrderOptions as Params

# Differences in memory at once.
_OF_A_CPU, _OF_A_GPU = 1 << 21, 1 << 24


def score(
    images: Float[Tensor, "images dim"], texts: Float[Tensor, "texts dim"], params: Params
) -> Float[Tensor, "images texts"]:
    """``-|| max(0, text - image) ||``: 0 where no coordinate of the text exceeds the image's,
    negative otherwise.

    Vendrov et al., Order-embeddings of images and language, ICLR 2016, Eq. 2. The vectors should
    not be negative (``use_abs``). At a violation of 0 the root passes a gradient of 0; the authors'
    code passes NaN. Differences are made in blocks and not stored. First-order gradients only."""
    lengths = _Violations.apply(images, texts)
    return -lengths if params.root else -lengths.square()


class _Violations(torch.autograd.Function):
    """The length of ``max(0, text - image)`` for each pair."""

    @staticmethod
    def forward(ctx, images, texts):
        lengths = images.new_empty(len(images), len(texts))
        width, height = _tile(images, texts)
        room = images.new_empty(height, width, images.shape[1])
        for part, of_part in zip(texts.split(width), lengths.split(width, dim=1), strict=True):
            space = room[:, : len(part)]
            for rows, out in zip(images[:, None].split(height), of_part.split(height), strict=True):
                excess = _excess(part.expand(len(rows), -1, -1), rows, space[: len(rows)])
                torch.linalg.vector_norm(excess, dim=2, out=out)
        ctx.save_for_backward(images, texts, lengths)
        return lengths

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        images, texts, lengths = ctx.saved_tensors
        weights = torch.where(lengths > 0, grad / lengths, 0.0)
        of_images, of_texts = torch.zeros_like(images), torch.zeros_like(texts)
        # Under the hardest negative most weights are 0, and these pairs cost nothing.
        pairs = weights.nonzero()
        for rows, columns in (part.unbind(1) for part in pairs.split(math.prod(_tile(images, texts)))):
            excess = texts[columns].sub_(images[rows]).relu_().mul_(weights[rows, columns, None])
            of_images.index_add_(0, rows, excess, alpha=-1)
            of_texts.index_add_(0, columns, excess)
        return of_images, of_texts


def _tile(images: Tensor, texts: Tensor) -> tuple[int, int]:
    """Texts and images whose differences are made at once: a square."""
    pairs = max(1, (_OF_A_CPU if images.is_cpu else _OF_A_GPU) // max(1, images.shape[1]))
    width = max(1, min(len(texts), math.isqrt(pairs)))
    return width, pairs // width


def _excess(texts: Tensor, images: Tensor, out: Tensor) -> Tensor:
    """``max(0, text - image)``, on a CPU in one step: a third of the time less."""
    if out.is_cpu:
        return torch.ops.aten._add_relu.out(texts, images, alpha=-1, out=out)
    return torch.sub(texts, images, out=out).relu_()
