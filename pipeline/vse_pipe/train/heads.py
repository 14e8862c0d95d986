"""Shared parts of image and text encoders: pooling, normalisation, first weights."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


def uniform(weights: Iterable[Tensor], bound: float, rng: torch.Generator) -> None:
    for weight in weights:
        nn.init.uniform_(weight, -bound, bound, generator=rng)


def l2norm(vectors: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """``x / sqrt(sum x^2)``: global models (vsepp, HAL ``l2norm``).

    A zero row stays zero and its gradient passes unscaled; in the authors' code it is NaN.
    """
    lengths = vectors.norm(dim=-1, keepdim=True)
    return vectors / lengths.masked_fill(lengths == 0, 1.0)


def exact(vectors: Tensor) -> Tensor:
    """float32 of the vectors that autocast made; float64, used in tests, stays."""
    return vectors if vectors.dtype == torch.float64 else vectors.float()


def unit(vectors: Float[Tensor, "rows dim"], params: Any) -> Float[Tensor, "rows dim"]:
    """``l2norm`` unless the options say no_imgnorm; absolute values for use_abs."""
    if not getattr(params, "no_imgnorm", False):
        vectors = l2norm(vectors)
    return vectors.abs() if params.use_abs else vectors


def linear(inputs: int, outputs: int, rng: torch.Generator) -> nn.Linear:
    """A layer with weights uniform in +-sqrt(6 / (in + out)) and bias 0, as in VSE++."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, generator=rng)
    nn.init.zeros_(layer.bias)
    return layer


class Projection(nn.Module):
    """The first layer of a head, ``fc``, drawn before anything else of it."""

    def __init__(self, params: Any, inputs: int, embed_size: int, rng: torch.Generator) -> None:
        super().__init__()
        self.params = params
        self.fc = linear(inputs, embed_size, rng)


@dataclass(frozen=True)
class OwnRate:
    """A learning rate in place of ``train.lr``. after: the epoch at which its schedule, equal for
    all rates, begins.

    As ``own_rate`` of a module it is the rate of the module's parameters. As ``takes_over`` it is,
    from epoch ``after`` on, the rate of all parameters without an ``own_rate``.
    """

    lr: float
    after: int = 0


def without_some(vectors: Float[Tensor, "rows dim"], share: float) -> Float[Tensor, "rows dim"]:
    """Set each number to 0 with chance ``share`` and scale the rest so that the row keeps its
    length.

    A row without any rest stays unchanged. On tf-idf at unit length this is the caption without the
    dropped words. Draws from torch's generator.
    """
    thinned_vectors = vectors * (torch.rand_like(vectors) >= share)
    lengths, rest = (side.norm(dim=1, keepdim=True) for side in (vectors, thinned_vectors))
    return torch.where(rest > 0, thinned_vectors * (lengths / rest), vectors)


# Pooling: a set of vectors becomes one vector by mean, maximum, or the generalised pooling operator
# (GPO).
#
# GPO is a weighted mean of each dimension's numbers in order of size; its weights are learned.
# Source: Chen et al., Learning the best pooling strategy for visual semantic embedding, CVPR 2021,
# section 3.

# The authors divide scores by this before the softmax.
_TEMPERATURE = 0.1


def pool(
    vectors: Float[Tensor, "sets n dim"], mask: Bool[Tensor, "sets n"], pooling: "GPO | str"
) -> Float[Tensor, "sets dim"]:
    """One vector of each set. mask: the vectors of the set, at least one, on the CPU where the
    pooling is learned; pooling: ``mean``, ``max`` or a learned one."""
    if isinstance(pooling, GPO):
        return pooling(vectors, mask)
    mask = mask.to(vectors.device, non_blocking=True)
    if pooling == "max":
        return vectors.masked_fill(~mask[..., None], -math.inf).amax(dim=1)
    shares = mask.to(vectors.dtype) / mask.sum(dim=1, keepdim=True)
    with torch.autocast(vectors.device.type, enabled=False):
        return torch.bmm(shares[:, None], vectors)[:, 0]


class GPO(nn.Module):
    """One vector of each set of vectors. Mean and maximum are among the poolings that it can learn.

    The weight of a place depends on the place and the size of the set: a bidirectional GRU reads
    sines and cosines of the places, its directions are averaged, and a linear layer makes a score
    of each state. Names are those of the authors' state_dict. Unlike their code, the weights are
    computed once for each size in the batch, and padding is left out instead of being sorted to the
    end as -10,000.
    """

    def __init__(self, rng: torch.Generator, places: int = 32, hidden: int = 32) -> None:
        """Draws weights uniform in +-1/sqrt(hidden): PyTorch's default, as in the authors' code.
        places: width of a place's encoding, even."""
        super().__init__()
        self.gru = nn.GRU(places, hidden, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(hidden, 1, bias=False)
        uniform(self.parameters(), 1 / math.sqrt(hidden), rng)

    def forward(self, vectors: Float[Tensor, "sets n dim"], mask: Bool[Tensor, "sets n"]) -> Float[Tensor, "sets dim"]:
        """mask: as in ``pool``. Computed in the type of the weights."""
        with torch.autocast(vectors.device.type, enabled=False):
            weights = self.weights(mask.sum(dim=1), vectors.shape[1])
            mask = mask.to(vectors.device, non_blocking=True)
            return torch.bmm(weights[:, None], descending(vectors.to(weights.dtype), mask))[:, 0]

    def weights(self, sizes: Int[Tensor, " sets"], longest: int) -> Float[Tensor, "sets longest"]:
        """Weights of the places 0, 1, ... in sets of these sizes, on the CPU; their sum is 1, and
        places past the size have weight 0."""
        distinct, which = sizes.unique(return_inverse=True)
        places = _encoded(longest, self.gru.input_size).to(self.linear.weight, non_blocking=True)
        states = padded(
            self.gru(packed(places.expand(len(distinct), -1, -1), distinct))[0],
            longest,
        )
        scores = self.linear(states.unflatten(-1, (2, -1)).mean(dim=-2))[..., 0] / _TEMPERATURE
        past = torch.arange(longest) >= distinct[:, None]
        past, which = (side.to(scores.device, non_blocking=True) for side in (past, which))
        return scores.masked_fill(past, -math.inf).softmax(dim=1)[which]


def packed(rows: Tensor, lengths: Int[Tensor, " sets"]) -> PackedSequence:
    """As ``pack_padded_sequence`` of sets in any order, without a wait for a GPU."""
    lengths, order = lengths.sort(descending=True)
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
    order, back = (side.to(rows.device, non_blocking=True) for side in (order, back))
    flat = pack_padded_sequence(rows.index_select(0, order), lengths, batch_first=True)
    return PackedSequence(flat.data, flat.batch_sizes, order, back)


def padded(packed: PackedSequence, longest: int) -> Float[Tensor, "sets longest dim"]:
    """As ``pad_packed_sequence``, whose lengths a GPU would have to be waited for."""
    inputs = PackedSequence(packed.data, packed.batch_sizes)
    rows = pad_packed_sequence(inputs, batch_first=True, total_length=longest)[0]
    return rows if packed.unsorted_indices is None else rows.index_select(0, packed.unsorted_indices)


def thinned(present: Bool[Tensor, "sets n"], share: float) -> Bool[Tensor, "sets n"]:
    """The elements that stay. Each is dropped with chance ``share``, but one of every set stays.
    Draws from torch's generator, which training seeds by (seed, epoch)."""
    draws = torch.rand(present.shape, device=present.device).masked_fill(~present, -1.0)
    return present & ((draws >= share) | (draws == draws.amax(dim=1, keepdim=True)))


def _encoded(count: int, size: int) -> Float[Tensor, "count size"]:
    """Alternating sines and cosines of places 0, 1, ..., at wavelengths from 2 pi to 20,000 pi."""
    rates = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-math.log(10000.0) / size))
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def descending(vectors: Float[Tensor, "sets n dim"], mask: Bool[Tensor, "sets n"]) -> Float[Tensor, "sets n dim"]:
    """Each dimension of the masked vectors sorted separately, largest first, then zeros."""
    numbers = vectors.masked_fill(~mask[..., None], -math.inf)
    # The sort of contiguous columns takes two thirds of the time.
    columns = numbers.transpose(1, 2).contiguous()
    ordered = columns.sort(dim=2, descending=True).values.transpose(1, 2)
    past = torch.arange(mask.shape[1], device=mask.device) >= mask.sum(dim=1, keepdim=True)
    return ordered.masked_fill(past[..., None], 0)
