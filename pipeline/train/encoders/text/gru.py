"""Word embeddings and a GRU; the caption is the state after its last token (VSE++ EncoderText)."""

import math

import torch
from jaxtyping import Float, Int
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from pipeline.params.strict import Strict
from pipeline.train.encoders._norm import l2norm


class Params(Strict):
    """word_dim: size of a word vector; layers: stacked GRU layers; use_abs: absolute values at the end (order)."""

    word_dim: PositiveInt = 300
    layers: PositiveInt = 1
    use_abs: bool = False


class GRUTextEncoder(nn.Module):
    """(B, L) token ids and (B,) lengths to (B, embed_size). No projection and no dropout, as in the authors' code."""

    def __init__(self, params: Params, words: int, embed_size: int) -> None:
        super().__init__()
        self.params = params
        self.embed = nn.Embedding(words, params.word_dim)
        self.rnn = nn.GRU(params.word_dim, embed_size, params.layers, batch_first=True)

    def forward(
        self, tokens: Int[Tensor, "captions length"], lengths: Int[Tensor, "captions"]
    ) -> Float[Tensor, "captions dim"]:
        """``lengths`` on the CPU, each at least 1. Packing keeps padding out of the state and out of the work."""
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        vectors = l2norm(self.rnn(packed)[1][-1])
        return vectors.abs() if self.params.use_abs else vectors


def build(params: Params, words: int, embed_size: int, rng: torch.Generator) -> GRUTextEncoder:
    """Embeddings uniform in +-0.1, GRU uniform in +-1/sqrt(embed_size) (PyTorch's default, as the authors leave it)."""
    encoder = GRUTextEncoder(params, words, embed_size)
    nn.init.uniform_(encoder.embed.weight, -0.1, 0.1, generator=rng)
    bound = 1.0 / math.sqrt(embed_size)
    for weight in encoder.rnn.parameters():
        nn.init.uniform_(weight, -bound, bound, generator=rng)
    return encoder
