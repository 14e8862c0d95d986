"""Word embeddings and a GRU; a caption's vector is the last state or a pooling of all."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from vse_pipe.core.devices import sent
from vse_pipe.ranking.fragments import l2norm_eps
from vse_pipe.train.encoders.options import TextGruOptions as Params
from vse_pipe.train.heads import GPO, linear, packed, padded, pool, thinned, unit

# Where cuDNN computes the GRU. Autocast makes it float16 there, whatever its own type is, and losses
# are not scaled for that.
_CUDNN = "cuda"


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

    @property
    def is_static(self) -> bool:
        """As of ``DualEncoder``."""
        params = self.params
        return not (params.dropout or params.drop_words or params.bidirectional or self.gpo)

    def start_from(self, words: Int[Tensor, " known"], vectors: Float[Tensor, "known dim"]) -> None:
        """Word vectors of a file in place of those that were drawn. words: their ids."""
        with torch.no_grad():
            self.embed.weight[words] = vectors

    def forward(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " captions"]
    ) -> Float[Tensor, "captions dim"]:
        """A vector for each caption. lengths: 1 to L, on the CPU, unless ``is_static``."""
        if self.training and self.params.drop_words:
            tokens, lengths = self._thinned(tokens, lengths)
        return unit(self.fc(self._pooled(tokens, lengths)), self.params)

    def words(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " captions"]
    ) -> Float[Tensor, "captions length dim"]:
        """The state of each token at unit length for local models, zero past the end of a caption.

        Source: SGRAF ``EncoderText``, equal in SCAN and L2RM. Pooling, drop_words, projection and
        use_abs are not applied.
        """
        return l2norm_eps(self._states(tokens, lengths))

    def _thinned(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens that stay, in their order, and their lengths."""
        mask = thinned(_present(tokens, lengths), self.params.drop_words)
        lengths = mask.sum(dim=1)
        order = (~mask).to(torch.int8).argsort(dim=1, stable=True)[:, : lengths.max()]
        return tokens.gather(1, sent(order, tokens.device)), lengths

    def _pooled(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        if self.params.pooling == "last":
            return self._states(tokens, lengths, last=True)
        present = _present(tokens, lengths)
        return pool(self._states(tokens, lengths), present, self.gpo or self.params.pooling)

    def _states(self, tokens: Tensor, lengths: Tensor, last: bool = False) -> Tensor:
        """(B, L, embed_size), directions averaged, zero past the end of a caption; with ``last``
        the (B, embed_size) final states."""
        if tokens.device.type != _CUDNN:
            return self._of_packed(tokens, lengths, last)
        with torch.autocast(_CUDNN, enabled=False):
            read = self._of_packed if self.params.bidirectional else self._of_padded
            return read(tokens, lengths, last)

    def _of_padded(self, tokens: Tensor, lengths: Tensor, last: bool) -> Tensor:
        """Padding follows the words and changes no earlier state of one direction. A GPU packs word
        by word, and to read padding costs it less."""
        states = self.rnn(self.dropout(self.embed(tokens)))[0]
        chosen = _present(tokens, lengths)
        if last:
            chosen &= ~_present(tokens, lengths - 1)
        states = states.masked_fill(~sent(chosen, states.device)[..., None], 0.0)
        return states.sum(dim=1) if last else states

    def _of_packed(self, tokens: Tensor, lengths: Tensor, last: bool) -> Tensor:
        ids = packed(tokens, lengths)
        states, final = self.rnn(_with_data(ids, self.dropout(self.embed(ids.data))))
        if last:
            return final[-2:].mean(dim=0) if self.params.bidirectional else final[-1]
        if self.params.bidirectional:
            states = _with_data(states, states.data.unflatten(-1, (2, -1)).mean(dim=-2))
        return padded(states, tokens.shape[1])


def _present(tokens: Tensor, lengths: Tensor) -> Bool[Tensor, "captions length"]:
    """Whether a place holds a token, where the lengths are."""
    return torch.arange(tokens.shape[1], device=lengths.device) < lengths[:, None]


def _with_data(packed: PackedSequence, data: Tensor) -> PackedSequence:
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


def _xavier(inputs: int, outputs: int) -> float:
    return math.sqrt(6.0 / (inputs + outputs))


build_text = GRUTextEncoder
