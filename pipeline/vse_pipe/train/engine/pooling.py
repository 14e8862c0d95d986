"""Sets of vectors to one vector each: the mean, the maximum, or the generalised pooling operator (GPO), which is learned.

GPO is a weighted mean of each dimension's numbers in order of size; its weights are learned. Source: Chen et al., Learning
the best pooling strategy for visual semantic embedding, CVPR 2021, section 3.
"""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# What the authors divide scores by before the softmax.
_TEMPERATURE = 0.1


def pool(
    vectors: Float[Tensor, "sets n dim"], kept: Bool[Tensor, "sets n"], how: "GPO | str"
) -> Float[Tensor, "sets dim"]:
    """kept: the vectors of each set, at least one; how: ``mean``, ``max`` or a learned pooling."""
    if isinstance(how, GPO):
        return how(vectors, kept)
    if how == "max":
        return vectors.masked_fill(~kept[..., None], -math.inf).amax(dim=1)
    shares = kept / kept.sum(dim=1, keepdim=True)
    return torch.bmm(shares[:, None].to(vectors.dtype), vectors)[:, 0]


class GPO(nn.Module):
    """Sets of vectors to one vector each. Mean and maximum are two of the poolings that it can learn.

    The weight of a place depends on that place and on the size of the set alone: a GRU of both directions, averaged, reads
    the places' sines and cosines, a linear layer makes a score of each state. Names are those of the authors' state_dict.
    Other than there, the weights are computed once for each size of set in the batch, and padding is left out, not sorted
    to the end as -10,000.
    """

    def __init__(self, places: int = 32, hidden: int = 32) -> None:
        """places: numbers that stand for a place, even."""
        super().__init__()
        self.gru = nn.GRU(places, hidden, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(hidden, 1, bias=False)

    def draw(self, rng: torch.Generator) -> None:
        """Fresh weights, uniform in +-1/sqrt(hidden): PyTorch's default, as the authors leave it."""
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(self.gru.hidden_size), 1 / math.sqrt(self.gru.hidden_size), rng)

    def forward(self, vectors: Float[Tensor, "sets n dim"], kept: Bool[Tensor, "sets n"]) -> Float[Tensor, "sets dim"]:
        """kept: the vectors of each set, at least one; the others have no part. Computed in the type of the weights."""
        with torch.autocast(vectors.device.type, enabled=False):
            weights = self.weights(kept.sum(dim=1), vectors.shape[1])
            return torch.bmm(weights[:, None], descending(vectors.to(weights.dtype), kept))[:, 0]

    def weights(self, sizes: Int[Tensor, " sets"], longest: int) -> Float[Tensor, "sets longest"]:
        """Of the places 0, 1, ... in sets of these sizes; their sum is 1, and 0 is the weight of places past the size."""
        distinct, which = sizes.unique(return_inverse=True)
        places = _encoded(longest, self.gru.input_size).to(self.linear.weight)
        packed = pack_padded_sequence(places.expand(len(distinct), -1, -1), distinct.cpu(), True, enforce_sorted=False)
        states = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=longest)[0]
        scores = self.linear(states.unflatten(-1, (2, -1)).mean(dim=-2))[..., 0] / _TEMPERATURE
        past = torch.arange(longest, device=sizes.device) >= distinct[:, None]
        return scores.masked_fill(past, -math.inf).softmax(dim=1)[which]


def thinned(present: Bool[Tensor, "sets n"], share: float) -> Bool[Tensor, "sets n"]:
    """The elements that stay: each goes with chance ``share``, but one of every set stays. Draws from torch's own generator,
    which training ties to (seed, epoch)."""
    draws = torch.rand(present.shape, device=present.device).masked_fill(~present, -1.0)
    return present & ((draws >= share) | (draws == draws.amax(dim=1, keepdim=True)))


def _encoded(count: int, size: int) -> Float[Tensor, "count size"]:
    """Sines and cosines in turn of the places 0 ... count - 1, at wavelengths from 2 pi to 10,000 times that."""
    rates = torch.exp(torch.arange(0, size, 2, dtype=torch.float64) * (-math.log(10000.0) / size))
    angles = torch.arange(count)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def descending(vectors: Float[Tensor, "sets n dim"], kept: Bool[Tensor, "sets n"]) -> Float[Tensor, "sets n dim"]:
    """Each dimension of the ``kept`` vectors by itself, largest first; behind them zeros. First-order gradients only."""
    # A query is one caption by itself: the compiled loop takes longer to load than the whole search.
    if vectors.device.type == "cpu" and (len(vectors) > 1 or torch.is_grad_enabled()):
        return _Descending.apply(vectors, kept)
    ordered = vectors.masked_fill(~kept[..., None], -math.inf).sort(dim=1, descending=True).values
    past = torch.arange(kept.shape[1], device=kept.device) >= kept.sum(dim=1, keepdim=True)
    return ordered.masked_fill(past[..., None], 0)


class _Descending(torch.autograd.Function):
    """The compiled sort: PyTorch's own takes five times as long on sets of some tens."""

    @staticmethod
    def forward(ctx, vectors, kept):
        from vse_pipe.train.engine.compiled import descending as compiled  # numba takes half a second to import

        rows = vectors.detach().contiguous()
        ordered, places = torch.empty_like(rows), torch.empty(rows.shape, dtype=torch.int16)
        compiled.forward(rows.numpy(), kept.contiguous().numpy(), ordered.numpy(), places.numpy())
        ctx.save_for_backward(places)
        return ordered

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        from vse_pipe.train.engine.compiled import descending as compiled

        (places,), flow = ctx.saved_tensors, torch.empty_like(gradient, memory_format=torch.contiguous_format)
        compiled.backward(gradient.contiguous().numpy(), places.numpy(), flow.numpy())
        return flow, None
