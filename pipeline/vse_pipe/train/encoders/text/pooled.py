"""One linear layer on every token's vector from a fixed encoder, then pooling to one vector (VSE-infinity, CVPR 2021)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse_pipe.train.encoders.text.options import PooledOptions as Params
from vse_pipe.train.heads import GPO, check_lengths, check_width, draw, l2norm, l2norm_eps, pool, thinned

_NAME = "text encoder 'pooled'"


class PooledTextEncoder(nn.Module):
    """(B, L, D) vectors and (B,) lengths to (B, embed_size) by ``forward``, to (B, L, embed_size) by ``words``.

    Source: Chen et al., CVPR 2021, ``EncoderTextBert`` in the authors' code: a layer on each token's vector, pooled by GPO.
    Unlike their code, the network of the tokens is not trained.
    """

    def __init__(self, params: Params, in_features: int, embed_size: int) -> None:
        super().__init__()
        self.params = params
        self.dropout = nn.Dropout(params.dropout)
        self.fc = nn.Linear(in_features, embed_size)
        self.gpo = GPO() if params.pooling == "gpo" else None

    def forward(
        self, vectors: Float[Tensor, "captions length features"], lengths: Int[Tensor, " _"]
    ) -> Float[Tensor, "captions dim"]:
        """``lengths`` on the CPU; raises InputError unless each is 1 to L, and for vectors of another width."""
        placed = self._placed(vectors, lengths)
        mask = torch.arange(vectors.shape[1]) < lengths[:, None]
        if self.training and self.params.drop_words:
            mask = thinned(mask, self.params.drop_words)
        pooled = l2norm(pool(placed, mask.to(placed.device), self.gpo or self.params.pooling))
        return pooled.abs() if self.params.use_abs else pooled

    def words(
        self, vectors: Float[Tensor, "captions length features"], lengths: Int[Tensor, " _"]
    ) -> Float[Tensor, "captions length dim"]:
        """Unit vectors of the tokens, arbitrary past the end of a caption. Pooling, drop_words and use_abs are not applied."""
        return l2norm_eps(self._placed(vectors, lengths))

    def _placed(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        check_width(_NAME, vectors.flatten(0, 1), self.fc.in_features)
        check_lengths(_NAME, vectors[..., 0], lengths)
        return self.fc(self.dropout(vectors))


def build(params: Params, inputs: int, embed_size: int, rng: torch.Generator) -> PooledTextEncoder:
    """inputs: width of a token's vector. Draws the layer, uniform in +-sqrt(6 / (in + out)) with bias 0, then GPO."""
    encoder = PooledTextEncoder(params, inputs, embed_size)
    draw(encoder.fc, rng)
    if encoder.gpo is not None:
        encoder.gpo.draw(rng)
    return encoder
