"""One linear layer on every region of an image or every token's vector from a fixed encoder, then
pooling to one vector.

Source: Chen et al., CVPR 2021 (VSE-infinity).
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.ranking.fragments import l2norm_eps
from vse_pipe.train.encoders.options import ImagePooledOptions, TextPooledOptions
from vse_pipe.train.heads import GPO, Projection, pool, thinned, unit


class _Pooled(Projection):
    """Draws the layer, then GPO."""

    def __init__(
        self, params: ImagePooledOptions | TextPooledOptions, inputs: int, embed_size: int, rng: torch.Generator
    ) -> None:
        super().__init__(params, inputs, embed_size, rng)
        self.gpo = GPO(rng) if params.pooling == "gpo" else None

    def _pooled(self, vectors: Tensor, mask: Bool[Tensor, "sets n"], drop: float) -> Float[Tensor, "sets dim"]:
        if self.training and drop:
            mask = thinned(mask, drop)
        return unit(pool(vectors, mask, self.gpo or self.params.pooling), self.params)


class PooledImageEncoder(_Pooled):
    """(B, R, D) features of regions, grid cells or patches to (B, embed_size).

    It is the authors' ``EncoderImageAggr`` without its residual branch of two layers with batch
    normalisation. Unlike in their code, an image never loses all of its regions.
    """

    params: ImagePooledOptions

    def forward(self, features: Float[Tensor, "images regions features"]) -> Float[Tensor, "images dim"]:
        mask = torch.ones(features.shape[:2], dtype=torch.bool)
        return self._pooled(self.fc(features), mask, self.params.drop)


class PooledTextEncoder(_Pooled):
    """(B, L, D) vectors and (B,) lengths to (B, embed_size) by ``forward``, to (B, L, embed_size)
    by ``words``.

    It is the authors' ``EncoderTextBert``. Unlike in their code, the network of the tokens is not
    trained.
    """

    params: TextPooledOptions

    def forward(
        self, vectors: Float[Tensor, "captions length features"], lengths: Int[Tensor, " captions"]
    ) -> Float[Tensor, "captions dim"]:
        """lengths: 1 to L, on the CPU."""
        mask = torch.arange(vectors.shape[1]) < lengths[:, None]
        return self._pooled(self.fc(vectors), mask, self.params.drop_words)

    def words(
        self, vectors: Float[Tensor, "captions length features"], lengths: Int[Tensor, " captions"]
    ) -> Float[Tensor, "captions length dim"]:
        """Unit vectors of the tokens, arbitrary past the end of a caption. Pooling, drop_words and
        use_abs are not applied."""
        return l2norm_eps(self.fc(vectors))


build_image, build_text = PooledImageEncoder, PooledTextEncoder
