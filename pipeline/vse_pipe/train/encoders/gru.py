"""Word embeddings and a GRU; a caption's vector is the last state or a pooling of all states (VSE++ EncoderText)."""

import math
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

from vse_pipe.core.devices import sent
from vse_pipe.train import processes
from vse_pipe.train.encoders.options import TextGruOptions as Params
from vse_pipe.train.heads import GPO, check_lengths, draw, l2norm, l2norm_eps, packed, padded, thinned


class GRUTextEncoder(nn.Module):
    """(B, L) token ids and (B,) lengths to (B, embed_size) by ``forward``, to (B, L, embed_size) by ``words``.

    Directions are averaged, not concatenated, as in the local models (SCAN, SGRAF, L2RM). Padding has no effect.
    """

    def __init__(self, params: Params, words: int, embed_size: int) -> None:
        super().__init__()
        self.params = params
        self.embed = nn.Embedding(words, params.word_dim)
        self.dropout = nn.Dropout(params.dropout)
        self.rnn = nn.GRU(
            params.word_dim, embed_size, params.layers, batch_first=True, bidirectional=params.bidirectional
        )
        self.fc = nn.Linear(embed_size, embed_size) if params.projection else nn.Identity()
        self.gpo = GPO() if params.pooling == "gpo" else None

    def forward(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " _"]
    ) -> Float[Tensor, "captions dim"]:
        """A vector for each caption. ``lengths`` on the CPU; raises InputError unless each is 1 to L."""
        drop = self.params.drop_words if self.training else 0.0
        vectors = l2norm(self.fc(self._pooled(*self._read(tokens, lengths, drop))))
        return vectors.abs() if self.params.use_abs else vectors

    def words(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " _"]
    ) -> Float[Tensor, "captions length dim"]:
        """The state of each token at unit length for local models, zero past the end of a caption.

        Source: SGRAF ``EncoderText``, equal in SCAN and L2RM. Pooling, drop_words, projection and use_abs are not applied.
        """
        return l2norm_eps(padded(self._read(tokens, lengths)[0], tokens.shape[1]))

    def _read(self, tokens: Tensor, lengths: Tensor, drop: float = 0.0) -> tuple[PackedSequence, Tensor, Tensor]:
        """Every token's state and (B, embed_size) final states, directions averaged, and the lengths that were read. drop:
        share of the tokens to drop."""
        check_lengths("text encoder 'gru'", tokens, lengths)
        if drop:
            mask = thinned(torch.arange(tokens.shape[1]) < lengths[:, None], drop)
            order = (~mask).to(torch.int8).argsort(dim=1, stable=True)
            tokens, lengths = tokens.gather(1, sent(order, tokens.device)), mask.sum(dim=1)
        states, final = self._states(packed(tokens, lengths))
        if not self.params.bidirectional:
            return states, final[-1], lengths
        both = states.data.unflatten(-1, (2, -1)).mean(dim=-2)
        return _with_data(states, both), final[-2:].mean(dim=0), lengths

    def _states(self, packed: PackedSequence) -> tuple[PackedSequence, Tensor]:
        """The last layer's state of every token, directions concatenated (T, directions * H), and the final states of every
        layer and direction (layers * directions, B, H) in the order of the batch. The backward direction ends at token 0.

        packed: token ids. On the CPU the input gates of equal words in a batch are computed once, unless dropout changes
        each token.
        """
        # A single query uses PyTorch's GRU, because the compiled loop takes longer to load than the whole search.
        is_query = int(packed.batch_sizes[0]) == 1 and not torch.is_grad_enabled()
        if is_query or not _can_be_packed(self.rnn, packed.data.device):
            return self.rnn(self._dropped(packed))
        if self.training and self.dropout.p > 0:
            return packed_gru(self.rnn, self._dropped(packed))
        words, places = packed.data.unique(return_inverse=True)
        return packed_gru(self.rnn, _with_data(packed, places), self.embed(words))

    def _dropped(self, packed: PackedSequence) -> PackedSequence:
        return _with_data(packed, processes.token_dropout(self.dropout, packed, self.embed(packed.data)))

    def _pooled(self, states: PackedSequence, final: Tensor, lengths: Tensor) -> Tensor:
        if self.params.pooling == "last":
            return final
        if self.params.pooling == "max":
            return padded(states, value=-math.inf).max(dim=1).values
        rows = padded(states)
        if self.gpo is not None:
            return self.gpo(rows, torch.arange(rows.shape[1]) < lengths[:, None])
        return rows.sum(dim=1) / sent(lengths, rows.device)[:, None]


def _with_data(packed: PackedSequence, data: Tensor) -> PackedSequence:
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


def build_text(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> GRUTextEncoder:
    """inputs: words of the vocabulary. Draws embeddings, then the GRU, the projection and GPO.

    init ``code``: embeddings uniform in +-0.1, GRU uniform in +-1/sqrt(embed_size), which is PyTorch's default and that of
    the authors' code; ``xavier``: each matrix, and each gate of the GRU, uniform in +-sqrt(6 / (in + out)), biases 0. The
    projection is uniform in +-sqrt(6 / (in + out)) with bias 0 in both cases.
    """
    encoder = GRUTextEncoder(params, inputs, embed_size)
    xavier = params.init == "xavier"
    bound = _xavier(inputs, params.word_dim) if xavier else 0.1
    nn.init.uniform_(encoder.embed.weight, -bound, bound, generator=rng)
    for weight in encoder.rnn.parameters():
        bound = 1.0 / math.sqrt(embed_size)
        if xavier:
            bound = _xavier(weight.shape[-1], embed_size) if weight.ndim == 2 else 0.0
        nn.init.uniform_(weight, -bound, bound, generator=rng)
    if isinstance(encoder.fc, nn.Linear):
        draw(encoder.fc, rng)
    if encoder.gpo is not None:
        encoder.gpo.draw(rng)
    return encoder


def _xavier(inputs: int, outputs: int) -> float:
    return math.sqrt(6.0 / (inputs + outputs))


def _can_be_packed(rnn: nn.GRU, device: torch.device) -> bool:
    """Whether ``packed_gru`` can replace ``rnn``: one layer with biases, on the CPU (cuDNN has a fused GRU)."""
    dtype = rnn.weight_ih_l0.dtype
    return device.type == "cpu" and rnn.num_layers == 1 and rnn.bias and dtype in (torch.float32, torch.float64)


def packed_gru(
    rnn: nn.GRU, packed: PackedSequence, vectors: Float[Tensor, "rows word_dim"] | None = None
) -> tuple[PackedSequence, Float[Tensor, "directions captions dim"]]:
    """``rnn(packed)`` of a one-layer GRU on the CPU: the state of every token, directions concatenated, and the final states.

    PyTorch differentiates its CPU GRU word by word: each word needs a product and a sum of the size of the weights, and a
    gradient of the size of all gates. Here the input gates of all words are one product, and so is the gradient of each
    weight; only the recurrence runs word by word. Equations and order of the gates (r, z, n) are those of PyTorch, and the
    result is equal up to rounding:

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)        h' = (1 - z) * n + z * h

    With ``vectors``, ``packed.data`` contains the row of each token: the gates of a row are computed once for all of its
    tokens, and its gradients are summed before the products. Under CPU autocast the products have autocast's type; all else,
    including the result, has the type of the weights. Gradients of the first order only.
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
    """The mirror position in its caption of each token, in the order of a PackedSequence."""
    starts = sizes.cumsum(0) - sizes
    step = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    row = torch.arange(len(step)) - starts[step]
    return starts[lengths[row] - 1 - step] + row


def _recurrence(rnn, suffix: str, inputs, places, lengths, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """One direction: the state after each token, in reading order, and after the last token of each caption."""
    weights = [getattr(rnn, f"{name}_l0{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    dtype = weights[0].dtype
    kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else dtype
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (inputs, *weights))
    ends = torch.tensor([0, *sizes]).cumsum(0)[lengths - 1] + torch.arange(len(lengths))
    with torch.autocast("cpu", enabled=False):
        return _Recurrence.apply(inputs.to(dtype), places, *weights, ends, sizes, kind, keep)


class _Recurrence(torch.autograd.Function):
    """inputs: (rows, word_dim); places: the row of each token; kind: dtype of products; sizes: captions at each step,
    never growing, as in a PackedSequence."""

    @staticmethod
    def forward(ctx, inputs, places, w_ih, w_hh, b_ih, b_hh, ends, sizes, kind, keep):
        from vse_pipe.train import kernels as cell  # numba takes half a second to import

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
            slots = span if keep else slice(0, size)
            if step:  # the state before the first step is zero
                _linear(previous[:size], weight, b_hh, out=hidden[:size])
            parts = (reads[span], hidden[:size], previous[:size], gates[slots], linear[slots], states[span])
            cell.gru_forward(*(part.detach().numpy() for part in (table, *parts)))
            previous, start = states[span], start + size
        ctx.save_for_backward(inputs, places, w_ih, w_hh, states, gates, linear)
        ctx.sizes, ctx.kind = sizes, kind
        ctx.set_materialize_grads(False)  # mostly only one of the two results is used
        return states, states.index_select(0, ends)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_states, grad_final):
        inputs, places, w_ih, w_hh, states, gates, linear = ctx.saved_tensors
        dim, dtype, kind = states.shape[1], states.dtype, ctx.kind
        delta, new = _through_time((grad_states, grad_final), w_hh.to(kind), states, gates, linear, ctx.sizes)
        d_b_hh = delta.sum(dim=0, dtype=dtype)
        d_w_hh = (delta[ctx.sizes[0] :].t() @ _before(states, ctx.sizes).to(kind)).to(dtype)
        delta[:, 2 * dim :] = new  # from here on the gradient of W_i x + b_i
        d_b_ih = torch.cat([d_b_hh[: 2 * dim], new.sum(dim=0, dtype=dtype)])
        if places is not None:
            delta = torch.ops.aten.embedding_dense_backward(delta.to(dtype), places, len(inputs), -1, False).to(kind)
        d_inputs = (delta @ w_ih.to(kind)).to(dtype) if ctx.needs_input_grad[0] else None
        d_w_ih = (delta.t() @ inputs.to(kind)).to(dtype)
        return d_inputs, None, d_w_ih, d_w_hh, d_b_ih, d_b_hh, None, None, None, None


def _through_time(grads, weight, states, gates, linear, sizes) -> tuple[Tensor, Tensor]:
    """Gradients of W_h h + b_h (tokens, 3 dim) and of the sum in n (tokens, dim). grads: those of all and of final states."""
    from vse_pipe.train import kernels as cell

    tokens, dim, widest = len(states), states.shape[1], sizes[0]
    delta = torch.empty(tokens, 3 * dim, dtype=weight.dtype)
    new = torch.empty(tokens, dim, dtype=weight.dtype)
    grad_states, grad_final = grads
    zeros = states.new_zeros(widest, dim)
    # A caption's row keeps the gradient of its final state until the backward steps reach its last word.
    flow = zeros.clone() if grad_final is None else grad_final.clone()
    # numba has no bfloat16, so a step is first written in the type of the states.
    rough = weight.dtype != states.dtype
    scratch = (states.new_empty(widest, 3 * dim), states.new_empty(widest, dim)) if rough else ()
    stop = tokens
    for step in reversed(range(len(sizes))):
        size = sizes[step]
        span, before = slice(stop - size, stop), stop - size - sizes[step - 1]
        previous = states[before : before + size] if step else zeros
        now = flow[:size] if grad_states is None else flow[:size].add_(grad_states[span])
        written = tuple(part[:size] for part in scratch) if rough else (delta[span], new[span])
        cell.gru_backward(*(part.numpy() for part in (now, gates[span], linear[span], previous, *written)))
        if rough:
            delta[span], new[span] = written
        if step:
            _add_product(now, delta[span], weight)
        stop -= size
    return delta, new


def _before(states, sizes: list[int]) -> Tensor:
    """The state before each token from the second step on."""
    starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
    parts = [states[start : start + size] for start, (_, size) in zip(starts, pairwise(sizes), strict=False)]
    return torch.cat(parts) if parts else states[:0]


def _linear(inputs, weight, bias, out=None) -> Tensor:
    """``inputs @ weight + bias``; the product has the type of ``weight``, the sum that of ``bias``."""
    if weight.dtype == bias.dtype:
        return torch.addmm(bias, inputs, weight, out=out)
    return torch.add(inputs.to(weight.dtype) @ weight, bias, out=out)


def _add_product(total, left, right) -> None:
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)
