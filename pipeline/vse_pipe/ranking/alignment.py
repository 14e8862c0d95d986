"""Stacked cross attention in portions of limited memory, and layers of SGR and SAF."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from vse_pipe.core import processes
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.fragments import EPS, Words, l2norm_eps
from vse_pipe.ranking.similarities.options import Aggregate, Norm

# Added under roots, so that a zero has a gradient of zero instead of NaN; too small to change a
# float32 sum of squares.
TINY = 1e-30


def attention(raw: Float[Tensor, "a c b q"], norm: Norm, temperature: float) -> Float[Tensor, "a c b q"]:
    """Weights with sum 1 over the context (axis 1); ``norm`` is first applied over the queries
    (axis 3).

    Lee et al., Stacked Cross Attention, ECCV 2018, Eq. 1 to 3. As in the authors' code "clipped" is
    a leaky ReLU of slope 0.1 (the paper: max(0, x)), and 1e-8 is added to the norm."""
    if norm.startswith("clipped"):
        raw = torch.nn.functional.leaky_relu(raw, 0.1)
    if norm.endswith("l2norm"):
        size = raw.square().sum(dim=3, keepdim=True).clamp_min(TINY).sqrt()
        raw = raw * (temperature / (size + EPS))
    elif norm == "softmax":
        raw = raw.softmax(dim=3) * temperature
    else:
        raw = raw * temperature
    return raw.softmax(dim=1)


def attended(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], norm: Norm, temperature: float
) -> Float[Tensor, "images words regions"]:
    """The attention of every word to the regions of every image; its sum over the regions is 1."""
    weights = attention(products(images, words.expand(len(images), -1, -1)), norm, temperature)
    return weights[:, :, 0].transpose(1, 2)


def lengths(weights: Float[Tensor, "a c b q"], gram: Float[Tensor, "a c c"]) -> Float[Tensor, "a b q"]:
    """The length of each weighted sum of context vectors, from their inner products ``gram``."""
    return (weights * (gram @ weights.flatten(2)).view_as(weights)).sum(dim=1).clamp_min(TINY).sqrt()


def gram(vectors: Float[Tensor, "a c dim"]) -> Float[Tensor, "a c c"]:
    return torch.bmm(vectors, vectors.transpose(1, 2))


# Products of a region and a word in a portion; on a GPU, which many small products leave idle,
# 64 MiB of float32.
PORTION, PORTION_OF_A_GPU = 1 << 21, 1 << 24
# Images compared at once where images are independent.
IMAGES = 128
# Bytes that a batch may save for the backward pass; further portions are computed twice.
KEPT = 5 << 28


@dataclass(frozen=True)
class Portion:
    """vectors: (words, dim) of captions sorted by length; lengths: of each caption."""

    vectors: Float[Tensor, "words dim"]
    lengths: Int[Tensor, " captions"]

    @cached_property
    def shapes(self) -> list[tuple[int, int]]:
        """(captions, L) of each chunk: the captions of one length."""
        lengths, counts = self.lengths.unique_consecutive(return_counts=True)
        return list(zip(counts.tolist(), lengths.tolist(), strict=True))

    def chunks(self, tensor: Tensor, axis: int) -> Iterator[Tensor]:
        """Pieces of a tensor, with the words of ``axis`` split into captions and L."""
        pieces = tensor.split([count * length for count, length in self.shapes], dim=axis)
        for piece, shape in zip(pieces, self.shapes, strict=True):
            yield piece.unflatten(axis, shape)


def over_captions(
    part: Callable[..., tuple[Tensor, ...]], words: Words, rows: int, saved: int, extra: tuple[Tensor, ...] = ()
) -> tuple[Tensor, ...]:
    """Results of ``part(portion)``, captions along the last axis, in the order of ``words``.

    rows: regions of all images; a portion has at most ``PORTION / rows`` words or one caption.
    saved: bytes that autograd saves for one word; portions beyond ``KEPT`` are computed again in
    the backward pass, so ``part`` must not draw random numbers there. extra: tensors with a row per
    caption, passed to ``part`` after the portion. Processes that train as one share the captions if
    ``saved`` is not 0; otherwise ``part`` may draw random numbers and each process computes all."""
    order, share = words.lengths.argsort(stable=True), processes.Share((len(words),), 0)
    if saved and len(words):
        order, share = processes.dealt(order)
    dealt = share.take(order)
    words, places = words.take(dealt), dealt.to(words.device, non_blocking=True)
    extra = tuple(tensor.index_select(0, places) for tensor in extra)
    outputs, so_far = [], 0
    products_at_once = PORTION if words.vectors.is_cpu else PORTION_OF_A_GPU
    for captions in _portions(words.lengths.tolist(), min(products_at_once // rows, KEPT // max(1, saved))):
        chosen = words[captions]
        so_far += saved * len(chosen.vectors)
        inputs = (Portion(chosen.vectors, chosen.lengths), *(tensor[captions] for tensor in extra))
        if torch.is_grad_enabled() and so_far > KEPT:
            part_again = partial(checkpoint, part, use_reentrant=False, preserve_rng_state=False)
            outputs.append(part_again(*inputs))
        else:
            outputs.append(part(*inputs))
    back = order.argsort().to(words.device, non_blocking=True)
    joined = (torch.cat(pieces, dim=-1).movedim(-1, 0) for pieces in zip(*outputs, strict=True))
    # SAF has no statistics of captions outside of training.
    return tuple(share.gather(rows).movedim(0, -1).index_select(-1, back) if len(rows) else rows for rows in joined)


def over_images(
    score: Callable[[Tensor], Tensor], images: Float[Tensor, "images regions dim"]
) -> Float[Tensor, "images captions"]:
    """``score`` of blocks of images, stacked."""
    return torch.cat([score(block) for block in images.split(IMAGES)])


def _portions(lengths: list[int], at_once: int) -> Iterator[slice]:
    """Consecutive captions with at most ``at_once`` words, or one caption."""
    start = total = 0
    for place, length in enumerate(lengths):
        if total + length > at_once and place > start:
            yield slice(start, place)
            start, total = place, 0
        total += length
    yield slice(start, len(lengths))


def products(
    contexts: Float[Tensor, "pairs c dim"], queries: Float[Tensor, "pairs q dim"]
) -> Float[Tensor, "pairs c 1 q"]:
    """Inner products of each pair's vectors, for one context with many sets of queries."""
    return torch.bmm(contexts, queries.transpose(1, 2))[:, :, None]


def stacked(
    raw: Float[Tensor, "a c b q"],
    inner: Float[Tensor, "a c c"],
    sizes: Float[Tensor, "*each q"],
    norm: Norm,
    temperature: float,
) -> Float[Tensor, "a b q"]:
    """The cosine of each query and the context vector that it attends to.

    raw: products of context and queries; inner: products of the context with itself; sizes: lengths
    of the queries, (b, q), or (a, 1, q) where each context has its own queries. The attended vector
    c = sum_r w_r v_r is not computed: e.c = sum_r w_r (v_r.e) and |c|^2 = w^T G w with the inner
    products G. As in the authors' code the product of the lengths is at least 1e-8."""
    weights = attention(raw, norm, temperature)
    return (weights * raw).sum(dim=1) / (sizes * lengths(weights, inner)).clamp_min(EPS)


def sizes(vectors: Float[Tensor, "... dim"]) -> Float[Tensor, "..."]:
    return vectors.square().sum(dim=-1).clamp_min(TINY).sqrt()


def aggregated(cosines: Float[Tensor, "... q"], aggregate: Aggregate, lse: float) -> Float[Tensor, "..."]:
    """One score from the cosines of all queries; ``lse``: log(sum exp(lse * x)) / lse."""
    if aggregate == "mean":
        return cosines.mean(dim=-1)
    if aggregate == "lse":
        return (lse * cosines).logsumexp(dim=-1) / lse
    return cosines.amax(dim=-1) if aggregate == "max" else cosines.sum(dim=-1)


# Rows (an image with a word) whose differences stay in the cache between the steps; for a GPU
# 256 MiB of them.
ROWS, ROWS_OF_A_GPU = 1 << 10, 1 << 16


def alignments(
    context: Float[Tensor, "a c dim"],
    queries: Float[Tensor, "words dim"],
    weights: Float[Tensor, "a c words"],
    linear: nn.Linear,
) -> Float[Tensor, "a words sim"]:
    """``linear((sum_c weights_c context_c - query)^2)``: one vector for every a and every query.

    The differences, ``dim`` numbers a row, are computed in tiles, and again in the backward pass;
    only the inputs are saved. Rows without a gradient, as most are under a loss of the hardest
    negatives, cost nothing there. First-order gradients only."""
    return _Alignments.apply(context, queries, weights, linear.weight, linear.bias)  # type: ignore[no-any-return]


class _Alignments(torch.autograd.Function):
    @staticmethod
    def forward(ctx, context, queries, weights, matrix, bias):
        ctx.save_for_backward(context, queries, weights, matrix)
        vectors = context.new_empty(len(context), len(queries), len(matrix))
        for a, w in _tiles(context, queries):
            difference = torch.bmm(weights[a, :, w].transpose(1, 2), context[a]).sub_(queries[w])
            vectors[a, w] = torch.nn.functional.linear(difference.square_(), matrix, bias)
        return vectors

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        context, queries, weights, matrix = saved = ctx.saved_tensors
        d_context, d_queries, d_weights, d_matrix = map(torch.zeros_like, saved)
        doubled, words = 2 * matrix, [torch.arange(len(queries), device=grad.device)] * len(context)
        if grad.is_cpu:  # a GPU would have to be waited for
            words = [row.nonzero()[:, 0] for row in grad.any(dim=2)]
        for a, places in ((a, part) for a, row in enumerate(words) for part in row.split(ROWS)):
            chosen, out = weights[a].index_select(1, places), grad[a].index_select(0, places)
            difference = (chosen.t() @ context[a]).sub_(queries.index_select(0, places))
            d_matrix.addmm_(out.t(), difference.square())
            inner = (out @ doubled).mul_(difference)
            d_context[a].addmm_(chosen, inner)
            d_weights[a].index_copy_(1, places, context[a] @ inner.t())
            d_queries.index_add_(0, places, inner, alpha=-1)
        return d_context, d_queries, d_weights, d_matrix, grad.sum(dim=(0, 1))


def _tiles(context: Tensor, queries: Tensor) -> list[tuple[slice, slice]]:
    """Images and words of at most about ``ROWS`` rows."""
    images, words, rows = len(context), len(queries), ROWS if context.is_cpu else ROWS_OF_A_GPU
    wide = min(words, rows)
    high = max(1, rows // wide)
    return [(slice(a, a + high), slice(w, w + wide)) for w in range(0, words, wide) for a in range(0, images, high)]


class SelfAttention(nn.Module):
    """One vector for a set of vectors: their mean, weighted by the agreement of each vector with
    the plain mean.

    regions: with batch normalisation of each region over images and dimensions, which fixes their
    number (VisualSA); None: without (TextSA). Names as in the authors' state_dict."""

    def __init__(self, dim: int, dropout: float, regions: int | None) -> None:
        super().__init__()
        self.embedding_local = _branch(dim, dropout, regions)
        self.embedding_global = _branch(dim, dropout, None if regions is None else dim)
        self.embedding_common = nn.Sequential(nn.Linear(dim, 1))

    def forward(self, vectors: Float[Tensor, "sets size dim"]) -> Float[Tensor, "sets dim"]:
        common = self.embedding_local(vectors) * self.embedding_global(vectors.mean(dim=1))[:, None]
        return l2norm_eps((self.embedding_common(common).softmax(dim=1) * vectors).sum(dim=1))


def _branch(dim: int, dropout: float, channels: int | None) -> nn.Sequential:
    normed = [] if channels is None else [nn.BatchNorm1d(channels)]
    return nn.Sequential(nn.Linear(dim, dim), *normed, nn.Tanh(), nn.Dropout(dropout))


class Alignment(nn.Module):
    """The first layers and the last layer of SGR and SAF."""

    def __init__(self, dim: int, sim_dim: int, regions: int, dropout: float) -> None:
        super().__init__()
        self.regions = regions
        self.v_global_w = SelfAttention(dim, dropout, regions)
        self.t_global_w = SelfAttention(dim, dropout, None)
        self.sim_tranloc_w = nn.Linear(dim, sim_dim)
        self.sim_tranglo_w = nn.Linear(dim, sim_dim)
        self.sim_eval_w = nn.Linear(sim_dim, 1)

    def whole_images(self, images: Float[Tensor, "images regions dim"]) -> Float[Tensor, "images dim"]:
        """Raises InputError for another number of regions, and in training for a single image."""
        if images.shape[1] != self.regions:
            raise InputError(f"built for {self.regions} regions an image, got {images.shape[1]}")
        if self.training and len(images) < 2:
            raise InputError("batch normalisation over images needs at least two of them: raise train.batch_size")
        return self.v_global_w(images)

    def whole_captions(self, words: Words) -> Float[Tensor, "captions dim"]:
        def part(portion: Portion) -> tuple[Tensor]:
            return (torch.cat([self.t_global_w(chunk) for chunk in portion.chunks(portion.vectors, 0)]).t(),)

        return over_captions(part, words, words.vectors.shape[1], saved=0)[0].t()

    def nodes(
        self,
        images: Float[Tensor, "images regions dim"],
        pooled: tuple[Float[Tensor, "images dim"], Float[Tensor, "captions dim"]],
        inner: Float[Tensor, "images regions regions"],
        portion: Portion,
        temperature: float,
    ) -> Iterator[tuple[Float[Tensor, "images captions 1 sim"], Float[Tensor, "images captions length sim"]]]:
        """For each chunk the alignments of global vectors and words, not of unit length."""
        raw = (images.flatten(0, 1) @ portion.vectors.t()).unflatten(0, images.shape[:2])
        weights = [unit_sums(chunk, inner, temperature).flatten(2) for chunk in portion.chunks(raw, 2)]
        of_images, of_captions = pooled
        unit_weights = images.new_ones(len(images), 1, len(of_captions))
        coarse = alignments(of_images[:, None], of_captions, unit_weights, self.sim_tranglo_w)
        local = alignments(images, portion.vectors, torch.cat(weights, dim=2), self.sim_tranloc_w)
        captions = [count for count, _ in portion.shapes]
        return zip(coarse[:, :, None].split(captions, dim=1), portion.chunks(local, 1), strict=True)


def unit_sums(
    raw: Float[Tensor, "a c b q"], inner: Float[Tensor, "a c c"], temperature: float
) -> Float[Tensor, "a c b q"]:
    """Weights under which the sum of the context vectors has length 1."""
    weights = attention(raw, "clipped_l2norm", temperature)
    return weights / (lengths(weights, inner)[:, None] + EPS)


def draw(network: nn.Module, rng: torch.Generator) -> nn.Module:
    """Linear layers are uniform in +-sqrt(6 / (in + out)), biases 0; batch norms 1 and 0."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, generator=rng)
            nn.init.zeros_(module.bias)
    return network
