"""Word embeddings and a GRU; a caption's vector is the last state or a pooling of all."""

import contextlib
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from vse_pipe.core.devices import sent
from vse_pipe.train.encoders.options import TextGruOptions as Params
from vse_pipe.train.heads import GPO, l2norm_eps, linear, packed, padded, thinned, unit

# Where autocast makes a GRU float16, whatever its own type is; losses are not scaled for that.
_HALVED_ON = "cuda"


class GRUTextEncoder(nn.Module):
    """(B, L) token ids and (B,) lengths to (B, embed_size) by ``forward``, to (B, L, embed_size) by
    ``words``.

    Directions are averaged, not concatenated, as in the local models (SCAN, SGRAF, L2RM). Padding
    has no effect.
    """

    def __init__(self, params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> None:
        """inputs: words of the vocabulary. Draws embeddings, then the GRU, the projection and GPO.

        init ``code``: embeddings uniform in +-0.1, GRU uniform in +-1/sqrt(embed_size), which is
        PyTorch's default and that of the authors' code; ``xavier``: each matrix, and each gate of
        the GRU, uniform in +-sqrt(6 / (in + out)), biases 0.
        """
        super().__init__()
        self.params = params
        self.embed = nn.Embedding(inputs, params.word_dim)
        self.dropout = nn.Dropout(params.dropout)
        self.rnn = nn.GRU(
            params.word_dim, embed_size, params.layers, batch_first=True, bidirectional=params.bidirectional
        )
        self._draw(rng)
        self.fc = linear(embed_size, embed_size, rng) if params.projection else nn.Identity()
        self.gpo = GPO(rng) if params.pooling == "gpo" else None

    def _draw(self, rng: torch.Generator) -> None:
        xavier, size = self.params.init == "xavier", self.rnn.hidden_size
        bound = _xavier(*self.embed.weight.shape) if xavier else 0.1
        nn.init.uniform_(self.embed.weight, -bound, bound, generator=rng)
        for weight in self.rnn.parameters():
            bound = 1.0 / math.sqrt(size)
            if xavier:
                bound = _xavier(weight.shape[-1], size) if weight.ndim == 2 else 0.0
            nn.init.uniform_(weight, -bound, bound, generator=rng)

    def start_from(self, words: Int[Tensor, " known"], vectors: Float[Tensor, "known dim"]) -> None:
        """Word vectors of a file in place of those that were drawn. words: their ids."""
        with torch.no_grad():
            self.embed.weight[words] = vectors

    def forward(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " captions"]
    ) -> Float[Tensor, "captions dim"]:
        """A vector for each caption. lengths: 1 to L, on the CPU."""
        drop = self.params.drop_words if self.training else 0.0
        return unit(self.fc(self._pooled(*self._read(tokens, lengths, drop))), self.params)

    def words(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " captions"]
    ) -> Float[Tensor, "captions length dim"]:
        """The state of each token at unit length for local models, zero past the end of a caption.

        Source: SGRAF ``EncoderText``, equal in SCAN and L2RM. Pooling, drop_words, projection and
        use_abs are not applied.
        """
        return l2norm_eps(padded(self._read(tokens, lengths)[0], tokens.shape[1]))

    def _read(self, tokens: Tensor, lengths: Tensor, drop: float = 0.0) -> tuple[PackedSequence, Tensor, Tensor]:
        """Every token's state and (B, embed_size) final states, directions averaged, and the
        lengths that were read. drop: share of the tokens to drop."""
        if drop:
            mask = thinned(torch.arange(tokens.shape[1]) < lengths[:, None], drop)
            order = (~mask).to(torch.int8).argsort(dim=1, stable=True)
            tokens, lengths = tokens.gather(1, sent(order, tokens.device)), mask.sum(dim=1)
        ids = packed(tokens, lengths)
        device = tokens.device.type
        exact = torch.autocast(device, enabled=False) if device == _HALVED_ON else contextlib.nullcontext()
        with exact:
            states, final = self.rnn(_with_data(ids, self.dropout(self.embed(ids.data))))
        if not self.params.bidirectional:
            return states, final[-1], lengths
        both = states.data.unflatten(-1, (2, -1)).mean(dim=-2)
        return _with_data(states, both), final[-2:].mean(dim=0), lengths

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


def _xavier(inputs: int, outputs: int) -> float:
    return math.sqrt(6.0 / (inputs + outputs))


build_text = GRUTextEncoder
