"""A one-layer ``nn.GRU`` on the CPU, written so that training it costs little more than its matrix products.

PyTorch differentiates its CPU GRU word by word: for each one a product and a sum of the size of the weights, and a gradient
of the size of all gates. Here the input gates of all words are one product, and so is each gradient of a weight; only the
recurrence itself goes word by word. Same equations, same order of gates (r, z, n), same result up to rounding:

    r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
    z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)        h' = (1 - z) * n + z * h
"""

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence


def supported(rnn: nn.GRU, device: torch.device) -> bool:
    """Whether ``run`` can stand in for ``rnn``: one layer with biases, on the CPU (cuDNN has its own fused GRU)."""
    dtype = rnn.weight_ih_l0.dtype
    return device.type == "cpu" and rnn.num_layers == 1 and rnn.bias and dtype in (torch.float32, torch.float64)


def run(
    rnn: nn.GRU, packed: PackedSequence, vectors: Float[Tensor, "rows word_dim"] | None = None
) -> tuple[PackedSequence, Float[Tensor, "directions captions dim"]]:
    """What ``rnn(packed)`` returns: the state of every token, directions side by side, and the final states.

    With ``vectors``, ``packed.data`` holds for each token a row of them: the gates of a row are computed once for all its
    tokens, and its gradients are summed before the products. Under CPU autocast the products are in autocast's type; the
    rest, and what is returned, stays in the type of the weights. Gradients of the first order only.
    """
    places, inputs = (None, packed.data) if vectors is None else (packed.data, vectors)
    sizes, order = packed.batch_sizes, packed.unsorted_indices
    lengths = (sizes[:, None] > torch.arange(int(sizes[0]))).sum(dim=0)
    states, finals = [], []
    for suffix in ("", "_reverse") if rnn.bidirectional else ("",):
        turned = _turned(sizes, lengths) if suffix else None
        read = places if turned is None else turned if places is None else places[turned]
        state, final = _recurrence(rnn, suffix, inputs, read, lengths, sizes.tolist())
        finals.append(final if order is None else final.index_select(0, order))
        states.append(state if turned is None else state.index_select(0, turned))
    data = states[0] if len(states) == 1 else torch.cat(states, dim=1)
    return PackedSequence(data, sizes, packed.sorted_indices, order), torch.stack(finals)


def _turned(sizes: Int[Tensor, " steps"], lengths: Int[Tensor, " captions"]) -> Int[Tensor, " tokens"]:
    """For each token, in the order of a PackedSequence, the token as far from the other end of its caption."""
    starts = sizes.cumsum(0) - sizes
    step = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    row = torch.arange(len(step)) - starts[step]
    return starts[lengths[row] - 1 - step] + row


def _recurrence(rnn, suffix: str, inputs, places, lengths, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """One direction: the state after each token, in the order of reading, and after the last of each caption."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = [getattr(rnn, f"{name}_l0{suffix}") for name in names]
    dtype = weights[0].dtype
    kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else dtype
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (inputs, *weights))
    ends = torch.tensor([0, *sizes]).cumsum(0)[lengths - 1] + torch.arange(len(lengths))
    with torch.autocast("cpu", enabled=False):
        return _Recurrence.apply(inputs.to(dtype), places, *weights, ends, sizes, kind, keep)


class _Recurrence(torch.autograd.Function):
    """inputs (rows, word_dim) and the row that each token reads; products are made in ``kind``.

    ``sizes``: captions still running at each step, never growing, as in a PackedSequence.
    """

    @staticmethod
    def forward(ctx, inputs, places, w_ih, w_hh, b_ih, b_hh, ends, sizes, kind, keep):
        from vse_pipe.train.engine.compiled import gru_cell as cell  # numba takes half a second to import

        tokens, dim, widest = sum(sizes), w_hh.shape[1], sizes[0]
        table = _linear(inputs, w_ih.to(kind).t(), b_ih)
        states = table.new_empty(tokens, dim)
        gates = table.new_empty(tokens if keep else widest, 3 * dim)
        linear = table.new_empty(tokens if keep else widest, dim)
        hidden, previous = b_hh.repeat(widest, 1), table.new_zeros(widest, dim)
        weight, start = w_hh.to(kind).t(), 0
        reads = torch.arange(tokens) if places is None else places
        for step, size in enumerate(sizes):
            span = slice(start, start + size)
            kept = span if keep else slice(0, size)
            if step:  # the state before the first step is zero
                _linear(previous[:size], weight, b_hh, out=hidden[:size])
            parts = (reads[span], hidden[:size], previous[:size], gates[kept], linear[kept], states[span])
            cell.forward(*(part.detach().numpy() for part in (table, *parts)))
            previous, start = states[span], start + size
        ctx.save_for_backward(inputs, places, w_ih, w_hh, states, gates, linear)
        ctx.sizes, ctx.kind = sizes, kind
        ctx.set_materialize_grads(False)  # mostly one of the two is not used
        return states, states.index_select(0, ends)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_states, grad_final):
        inputs, places, w_ih, w_hh, states, gates, linear = ctx.saved_tensors
        dim, dtype, kind = states.shape[1], states.dtype, ctx.kind
        grads = (grad_states, grad_final)
        delta, new = _through_time(grads, w_hh.to(kind), states, gates, linear, ctx.sizes)
        d_b_hh = delta.sum(dim=0, dtype=dtype)
        d_w_hh = (delta[ctx.sizes[0] :].t() @ _before(states, ctx.sizes).to(kind)).to(dtype)
        delta[:, 2 * dim :] = new  # from here on the gradient of W_i x + b_i
        d_b_ih = torch.cat([d_b_hh[: 2 * dim], new.sum(dim=0, dtype=dtype)])
        if places is not None:
            whole = delta.to(dtype)
            delta = torch.ops.aten.embedding_dense_backward(whole, places, len(inputs), -1, False).to(kind)
        d_inputs = (delta @ w_ih.to(kind)).to(dtype) if ctx.needs_input_grad[0] else None
        d_w_ih = (delta.t() @ inputs.to(kind)).to(dtype)
        return d_inputs, None, d_w_ih, d_w_hh, d_b_ih, d_b_hh, None, None, None, None


def _through_time(grads, weight, states, gates, linear, sizes) -> tuple[Tensor, Tensor]:
    """Gradients of W_h h + b_h (tokens, 3 dim) and of n's sum (tokens, dim), from those of all and of final states."""
    from vse_pipe.train.engine.compiled import gru_cell as cell

    tokens, dim, widest = len(states), states.shape[1], sizes[0]
    delta = torch.empty(tokens, 3 * dim, dtype=weight.dtype)
    new = torch.empty(tokens, dim, dtype=weight.dtype)
    grad_states, grad_final = grads
    zeros = states.new_zeros(widest, dim)
    # A caption's row waits with the gradient of its final state until the steps backward reach its last word.
    flow = zeros.clone() if grad_final is None else grad_final.clone()
    # Compiled code knows no bfloat16: a step is written in the type of the states first.
    rough = weight.dtype != states.dtype
    scratch = (states.new_empty(widest, 3 * dim), states.new_empty(widest, dim)) if rough else ()
    stop = tokens
    for step in reversed(range(len(sizes))):
        size = sizes[step]
        span, before = slice(stop - size, stop), stop - size - sizes[step - 1]
        previous = states[before : before + size] if step else zeros
        now = flow[:size] if grad_states is None else flow[:size].add_(grad_states[span])
        written = tuple(part[:size] for part in scratch) if rough else (delta[span], new[span])
        parts = (now, gates[span], linear[span], previous, *written)
        cell.backward(*(part.numpy() for part in parts))
        if rough:
            delta[span], new[span] = written
        if step:
            _add_product(now, delta[span], weight)
        stop -= size
    return delta, new


def _before(states, sizes: list[int]) -> Tensor:
    """The state before each token, of the tokens from the second step on."""
    starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
    parts = [states[start : start + size] for start, (_, size) in zip(starts, pairwise(sizes), strict=False)]
    return torch.cat(parts) if parts else states[:0]


def _linear(inputs, weight, bias, out=None) -> Tensor:
    """``inputs @ weight + bias``; the product in the type of ``weight``, the sum in that of ``bias``."""
    if weight.dtype == bias.dtype:
        return torch.addmm(bias, inputs, weight, out=out)
    return torch.add(inputs.to(weight.dtype) @ weight, bias, out=out)


def _add_product(total, left, right) -> None:
    """``total += left @ right``."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)
