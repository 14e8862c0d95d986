"""Token ids to a vector a caption, or one a word."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from vse_pipe.train.encoders.text.gru import Params, packed_gru
from vse_pipe.train.engine import whole_batch
from vse_pipe.train.engine.encoder.gpo import GPO
from vse_pipe.train.engine.encoder.layer import draw
from vse_pipe.train.engine.encoder.norm import l2norm, l2norm_eps
from vse_pipe.train.engine.encoder.shapes import check_lengths
from vse_pipe.train.engine.encoder.thin import thinned


class GRUTextEncoder(nn.Module):
    """(B, L) token ids and (B,) lengths to (B, embed_size) by ``forward``, to (B, L, embed_size) by ``words``.

    Directions are averaged, not concatenated, as in the local models (SCAN, SGRAF, L2RM). Padding has no part in either.
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
        states, final = self._read(tokens, lengths, self.params.drop_words if self.training else 0.0)
        vectors = l2norm(self.fc(self._pooled(states, final)))
        return vectors.abs() if self.params.use_abs else vectors

    def words(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, " _"]
    ) -> Float[Tensor, "captions length dim"]:
        """A vector for each token, as local models compare them: its state by itself at unit length, zero past the end.

        Source: SGRAF ``EncoderText`` (SCAN and L2RM alike). Pooling, drop_words, projection and use_abs have no part in it.
        """
        states, _ = self._read(tokens, lengths)
        return l2norm_eps(pad_packed_sequence(states, batch_first=True, total_length=tokens.shape[1])[0])

    def _read(self, tokens: Tensor, lengths: Tensor, drop: float = 0.0) -> tuple[PackedSequence, Tensor]:
        """Every token's state and (B, embed_size) final states, directions averaged. drop: share of the tokens that are not
        read."""
        check_lengths("text encoder 'gru'", tokens, lengths)
        if drop:
            read = thinned(torch.arange(tokens.shape[1]) < lengths[:, None], drop)
            order = (~read).to(torch.int8).argsort(dim=1, stable=True)
            tokens, lengths = tokens.gather(1, order.to(tokens.device)), read.sum(dim=1)
        packed = pack_padded_sequence(tokens, lengths, batch_first=True, enforce_sorted=False)
        states, final = self._states(packed)
        if not self.params.bidirectional:
            return states, final[-1]
        both = states.data.unflatten(-1, (2, -1)).mean(dim=-2)
        return _with_data(states, both), final[-2:].mean(dim=0)

    def _states(self, packed: PackedSequence) -> tuple[PackedSequence, Tensor]:
        """The last layer's state of every token, directions side by side (T, directions * H), and the final states of every
        layer and direction (layers * directions, B, H) in the order of the batch; backward ends at token 0.

        packed: token ids. On the CPU a word's input gates are computed once for all its tokens in the batch, unless dropout
        makes every token another.
        """
        # A query is one caption by itself: the compiled loop takes longer to load than the whole search.
        alone = int(packed.batch_sizes[0]) == 1 and not torch.is_grad_enabled()
        if alone or not packed_gru.supported(self.rnn, packed.data.device):
            return self.rnn(self._dropped(packed))
        if self.training and self.dropout.p > 0:
            return packed_gru.run(self.rnn, self._dropped(packed))
        words, places = packed.data.unique(return_inverse=True)
        return packed_gru.run(self.rnn, _with_data(packed, places), self.embed(words))

    def _dropped(self, packed: PackedSequence) -> PackedSequence:
        return _with_data(packed, whole_batch.of_tokens(self.dropout, packed, self.embed(packed.data)))

    def _pooled(self, states: PackedSequence, final: Tensor) -> Tensor:
        if self.params.pooling == "last":
            return final
        if self.params.pooling == "max":
            return pad_packed_sequence(states, batch_first=True, padding_value=-math.inf)[0].max(dim=1).values
        padded, lengths = pad_packed_sequence(states, batch_first=True)
        lengths = lengths.to(padded.device)[:, None]
        if self.gpo is not None:
            return self.gpo(padded, torch.arange(padded.shape[1], device=padded.device) < lengths)
        return padded.sum(dim=1) / lengths


def _with_data(packed: PackedSequence, data: Tensor) -> PackedSequence:
    return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> GRUTextEncoder:
    """inputs: words of the vocabulary. Draws embeddings, then the GRU, the projection and GPO.

    init ``code``: embeddings uniform in +-0.1, GRU uniform in +-1/sqrt(embed_size) (PyTorch's default, as the authors
    leave it); ``xavier``: each matrix, in the GRU each gate's, uniform in +-sqrt(6 / (in + out)), biases 0. The projection is
    drawn like the image side's layer under both: +-sqrt(6 / (in + out)), bias 0.
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
