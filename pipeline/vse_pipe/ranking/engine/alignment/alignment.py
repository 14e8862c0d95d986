"""SGRAF's alignment vectors: a linear layer on the squared difference of attended vectors and words."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

# Rows (an image with a word) whose differences are held at once: they stay in the cache between the steps.
ROWS = 1024


def alignments(
    context: Float[Tensor, "a c dim"],
    queries: Float[Tensor, "words dim"],
    weights: list[Float[Tensor, "a c _ _"]],
    linear: torch.nn.Linear,
) -> tuple[Float[Tensor, "a _ _ sim"], ...]:
    """``linear((sum_c weights_c context_c - query)^2)``: one vector for every a and every query.

    weights: in chunks of b times q queries, a chunk's own numbers, as what is given back. The differences, ``dim`` numbers a row, are made in tiles
    and made again on the way back; only what came with them is kept. Rows without a gradient cost nothing there.
    Gradients of the first order only.
    """
    found = _Alignments.apply(context, queries, linear.weight, linear.bias, *(chunk.flatten(2) for chunk in weights))
    return tuple(flat.unflatten(1, chunk.shape[2:]) for flat, chunk in zip(found, weights, strict=True))


class _Alignments(torch.autograd.Function):
    """context (a, c, dim), queries (words, dim), chunks of weights (a, c, w) to chunks (a, w, sim)."""

    @staticmethod
    def forward(ctx, context, queries, matrix, bias, *chunks):
        ctx.save_for_backward(context, queries, matrix, *chunks)
        turned, found, scratch = matrix.t(), [], None
        for part, weights in _parts(queries, chunks):
            out = context.new_empty(len(context), len(part), len(matrix))
            for a, w in _tiles(len(context), len(part)):
                scratch = _difference(context[a], part[w], weights[a, :, w], scratch)
                rows = scratch.square_().flatten(0, 1)
                if scratch.shape[1] == len(part):
                    torch.addmm(bias, rows, turned, out=out[a].flatten(0, 1))
                else:
                    out[a, w] = torch.addmm(bias, rows, turned).view(*scratch.shape[:2], -1)
            found.append(out)
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads):
        context, queries, matrix, *chunks = ctx.saved_tensors
        shared = [torch.zeros_like(tensor) for tensor in (context, queries, matrix)]
        d_bias, d_chunks = matrix.new_zeros(len(matrix)), []
        twice = 2 * matrix
        d_parts = shared[1].split([chunk.shape[2] for chunk in chunks])
        for (part, weights), d_part, grad in zip(_parts(queries, chunks), d_parts, grads, strict=True):
            some = sparse(grad.flatten(0, 1))
            back = _by_tiles if some is None else _by_rows
            d_chunks.append(torch.zeros_like(weights))
            into = (shared[0], d_part, d_chunks[-1], shared[2])
            back((context, part, weights, twice), into, grad, some)
            d_bias += grad.sum(dim=(0, 1))
        return *shared, d_bias, *d_chunks


def _by_tiles(inputs, into, grad, some) -> None:
    context, queries, weights, twice = inputs
    d_context, d_queries, d_weights, d_matrix = into
    difference = scratch = None
    for a, w in _tiles(len(context), len(queries)):
        difference = _difference(context[a], queries[w], weights[a, :, w], difference)
        if scratch is None or scratch.shape != difference.shape:
            scratch = torch.empty_like(difference)
        rows, out = scratch.flatten(0, 1), grad[a, w].reshape(-1, len(twice))
        torch.mul(difference, difference, out=scratch)
        d_matrix.addmm_(out.t(), rows)
        torch.mm(out, twice, out=rows)
        scratch.mul_(difference)
        d_context[a].baddbmm_(weights[a, :, w], scratch)
        # Faster than the transposed product, whose inner matrix is the wide one.
        d_weights[a, :, w] = torch.bmm(scratch, context[a].transpose(1, 2)).transpose(1, 2)
        d_queries[w].sub_(scratch.sum(dim=0) if len(scratch) > 1 else scratch[0])


def _by_rows(inputs, into, grad, some) -> None:
    """Where most rows have no gradient, as under a loss of the hardest negatives: an image at a time, its rows alone."""
    context, queries, weights, twice = inputs
    d_context, d_queries, d_weights, d_matrix = into
    some = some.view(grad.shape[:2])
    for a in some.any(dim=1).nonzero()[:, 0].tolist():
        places = some[a].nonzero()[:, 0]
        chosen, out = weights[a].index_select(1, places), grad[a].index_select(0, places)
        difference = (chosen.t() @ context[a]).sub_(queries.index_select(0, places))
        d_matrix.addmm_(out.t(), difference.square())
        inner = (out @ twice).mul_(difference)
        d_context[a].addmm_(chosen, inner)
        d_weights[a].index_copy_(1, places, context[a] @ inner.t())
        d_queries.index_add_(0, places, inner, alpha=-1)


def sparse(grad: Float[Tensor, "rows ..."]) -> Bool[Tensor, " rows"] | None:
    """Which rows are not all zero; None if most are not, as every eighth of them tells."""
    sample = grad[::8].flatten(1).any(dim=1)
    return None if 4 * int(sample.sum()) >= 3 * len(sample) else grad.flatten(1).any(dim=1)


def _parts(queries, chunks) -> zip:
    return zip(queries.split([chunk.shape[2] for chunk in chunks]), chunks, strict=True)


def _difference(context, queries, weights, out) -> Tensor:
    shape = (len(context), *queries.shape)
    out = out if out is not None and out.shape == shape else context.new_empty(shape)
    return torch.bmm(weights.transpose(1, 2), context, out=out).sub_(queries)


def _tiles(images: int, words: int) -> list[tuple[slice, slice]]:
    """Images and words of at most about ``ROWS`` rows."""
    wide = min(words, ROWS)
    high = max(1, ROWS // wide)
    return [(slice(a, a + high), slice(w, w + wide)) for w in range(0, words, wide) for a in range(0, images, high)]
