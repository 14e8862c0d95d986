"""One direction of ``nn.GRU`` on the CPU, written so that training it costs little more than its matrix products.

PyTorch differentiates its CPU GRU step by step: for each word a product and a sum of the size of the weights, and for each
word a gradient of the size of all gates. Here the input gates of all words are one product, and so is each gradient of a
weight; only the recurrence itself goes word by word. Same equations, same order of gates (r, z, n), same result up to
rounding:

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
    z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)        h' = (1 - z) * n + z * h
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from pipeline.train.encoders.text import _gru_cell as cell


def supported(rnn: nn.GRU, device: torch.device) -> bool:
    """Whether ``run`` can stand in for ``rnn``: one layer with biases, on the CPU (cuDNN has its own fused GRU)."""
    return device.type == "cpu" and rnn.num_layers == 1 and rnn.bias


def run(
    rnn: nn.GRU, packed: PackedSequence, vectors: Float[Tensor, "rows word_dim"] | None = None
) -> tuple[PackedSequence, Float[Tensor, "directions captions dim"]]:
    """What ``rnn(packed)`` returns: the state of every token, directions side by side, and the final states.

    With ``vectors``, ``packed.data`` holds a row of it for each token: the input gates of a row are then computed
    once for all its tokens, and its gradient is summed before the products. Under CPU autocast the products are in
    its type, everything else stays in the type of the weights.
    """
    places, inputs = (None, packed.data) if vectors is None else (packed.data, vectors)
    sizes, order = packed.batch_sizes, packed.unsorted_indices
    lengths = (sizes[:, None] > torch.arange(int(sizes[0]))).sum(dim=0)
    starts = sizes.cumsum(0) - sizes
    ends = starts[lengths - 1] + torch.arange(len(lengths))
    low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    states, finals = [], []
    for suffix in ("", "_reverse") if rnn.bidirectional else ("",):
        weights = [getattr(rnn, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        turned = _turned(sizes, lengths, starts) if suffix else None
        read = places if turned is None else turned if places is None else places[turned]
        with torch.autocast("cpu", enabled=False):
            state = _Recurrence.apply(inputs.to(weights[0].dtype), read, *weights, sizes.tolist(), low)
        final = state.index_select(0, ends)
        states.append(state if turned is None else state.index_select(0, turned))
        finals.append(final if order is None else final.index_select(0, order))
    data = states[0] if len(states) == 1 else torch.cat(states, dim=1)
    return PackedSequence(data, sizes, packed.sorted_indices, order), torch.stack(finals)


def _turned(sizes: Tensor, lengths: Tensor, starts: Tensor) -> Int[Tensor, "tokens"]:
    """For each token, in the order of a PackedSequence, the token as far from the other end of its caption."""
    row = torch.cat([torch.arange(size) for size in sizes.tolist()])
    step = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return starts[lengths[row] - 1 - step] + row


class _Recurrence(torch.autograd.Function):
    """Inputs (rows, word_dim) and which row each token reads, to the state (tokens, dim) after each token."""

    @staticmethod
    def forward(ctx, inputs, places, w_ih, w_hh, b_ih, b_hh, sizes, low):
        kind = low or inputs.dtype
        table = _linear(inputs, w_ih.to(kind).t(), b_ih)
        tokens, dim = sum(sizes), w_hh.shape[1]
        keep = any(ctx.needs_input_grad)
        states = table.new_empty(tokens, dim)
        gates = table.new_empty(tokens if keep else sizes[0], 3 * dim)
        linear = table.new_empty(tokens if keep else sizes[0], dim)
        turned, hidden = w_hh.to(kind).t(), table.new_empty(sizes[0], 3 * dim)
        hidden.copy_(b_hh)
        previous, start = table.new_zeros(sizes[0], dim), 0
        for step, size in enumerate(sizes):
            span, kept = slice(start, start + size), slice(start, start + size) if keep else slice(0, size)
            if step:
                _linear(previous[:size], turned, b_hh, out=hidden[:size])
            read = table[span] if places is None else table.index_select(0, places[span])
            cell.forward(read, hidden[:size], previous[:size], gates[kept], linear[kept], states[span])
            previous, start = states[span], start + size
        ctx.save_for_backward(inputs, places, w_ih, w_hh, states, gates, linear)
        ctx.sizes, ctx.kind = sizes, kind
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        inputs, places, w_ih, w_hh, states, gates, linear = ctx.saved_tensors
        sizes, kind = ctx.sizes, ctx.kind
        dim, dtype = states.shape[1], states.dtype
        weight, down = w_hh.to(kind), states.new_zeros(sizes[0], dim)
        hidden = torch.empty(len(states), 3 * dim, dtype=kind)
        new = torch.empty(len(states), dim, dtype=kind)
        zeros = states.new_zeros(sizes[0], dim)
        stop = len(states)
        for step in reversed(range(len(sizes))):
            size = sizes[step]
            span, before = slice(stop - size, stop), stop - size - sizes[step - 1]
            previous = states[before : before + size] if step else zeros
            flow = down[:size].add_(grad[span])
            cell.backward(flow, gates[span], linear[span], previous, hidden[span], new[span])
            if step:
                _add_product(flow, hidden[span], weight)
            stop -= size
        first = sizes[0]
        steps = torch.cat([states.new_zeros(0, dim), *_previous(states, sizes)]).to(kind)
        d_w_hh = (hidden[first:].t() @ steps).to(dtype)
        d_b_hh = hidden.sum(dim=0, dtype=dtype)
        hidden[:, 2 * dim :] = new
        d_b_ih = torch.cat([d_b_hh[: 2 * dim], new.sum(dim=0, dtype=dtype)])
        rows = hidden if places is None else torch.ops.aten.embedding_dense_backward(hidden, places, len(inputs), -1, False)
        d_inputs = (rows @ w_ih.to(kind)).to(dtype) if ctx.needs_input_grad[0] else None
        d_w_ih = (rows.t() @ inputs.to(kind)).to(dtype)
        return d_inputs, None, d_w_ih, d_w_hh, d_b_ih, d_b_hh, None, None


def _previous(states, sizes):
    """For each step but the first, the states that it started from."""
    start = 0
    for size, following in zip(sizes, sizes[1:]):
        yield states[start : start + following]
        start += size


def _linear(inputs, weight, bias, out=None):
    """``inputs @ weight + bias``; the product in the type of ``weight``, the sum in that of ``bias``."""
    if weight.dtype == bias.dtype:
        return torch.addmm(bias, inputs, weight, out=out)
    return torch.add(inputs.to(weight.dtype) @ weight, bias, out=out)


def _add_product(total, left, right):
    """``total += left @ right``."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)
