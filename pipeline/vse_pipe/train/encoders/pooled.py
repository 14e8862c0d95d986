"""One linear layer on every region of an image or every token's vector from a fixed encoder, then pooling to one vector
(VSE-infinity, CVPR 2021)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse_pipe.train.encoders.options import ImagePooledOptions, TextPooledOptions
from vse_pipe.train.heads import (
    GPO,
    check_lengths,
    check_regions,
    check_width,
    draw,
    l2norm,
    l2norm_eps,
    pool,
    regions_width,
    thinned,
)

_NAME = "text encoder 'pooled'"


class PooledImageEncoder(nn.Module):
    """(B, R, D) features of regions, grid cells or patches to (B, embed_size).

    Source: Chen et al., CVPR 2021, ``EncoderImageAggr`` without its residual branch of two layers with batch normalisation.
    Unlike their code, an image never loses all of its regions.
    """

    def __init__(self, params: ImagePooledOptions, in_features: int, embed_size: int, rng: torch.Generator) -> None:
        """Draws the layer, uniform in +-sqrt(6 / (in + out)) with bias 0, then GPO."""
        super().__init__()
        self.params = params
        self.fc = nn.Linear(in_features, embed_size)
        self.gpo = GPO() if params.pooling == "gpo" else None
        draw(self.fc, rng)
        if self.gpo is not None:
            self.gpo.draw(rng)

    def forward(self, features: Float[Tensor, "images regions features"]) -> Float[Tensor, "images dim"]:
        """Raises InputError for features of another width than the weights, and for one vector per image."""
        check_regions("pooled", features, self.fc.in_features)
        mask = torch.ones(features.shape[:2], dtype=torch.bool)
        if self.training and self.params.drop:
            mask = thinned(mask, self.params.drop)
        vectors = pool(self.fc(features), mask, self.gpo or self.params.pooling)
        if not self.params.no_imgnorm:
            vectors = l2norm(vectors)
        return vectors.abs() if self.params.use_abs else vectors


class PooledTextEncoder(nn.Module):
    """(B, L, D) vectors and (B,) lengths to (B, embed_size) by ``forward``, to (B, L, embed_size) by ``words``.

    Source: Chen et al., CVPR 2021, ``EncoderTextBert`` in the authors' code: a layer on each token's vector, pooled by GPO.
    Unlike their code, the network of the tokens is not trained.
    """

    def __init__(self, params: TextPooledOptions, in_features: int, embed_size: int, rng: torch.Generator) -> None:
        """Draws the layer, uniform in +-sqrt(6 / (in + out)) with bias 0, then GPO."""
        super().__init__()
        self.params = params
        self.dropout = nn.Dropout(params.dropout)
        self.fc = nn.Linear(in_features, embed_size)
        self.gpo = GPO() if params.pooling == "gpo" else None
        draw(self.fc, rng)
        if self.gpo is not None:
            self.gpo.draw(rng)

    def forward(
        self, vectors: Float[Tensor, "captions length features"], lengths: Int[Tensor, " _"]
    ) -> Float[Tensor, "captions dim"]:
        """``lengths`` on the CPU; raises InputError unless each is 1 to L, and for vectors of another width."""
        placed = self._placed(vectors, lengths)
        mask = torch.arange(vectors.shape[1]) < lengths[:, None]
        if self.training and self.params.drop_words:
            mask = thinned(mask, self.params.drop_words)
        pooled = l2norm(pool(placed, mask, self.gpo or self.params.pooling))
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


def build_image(
    params: ImagePooledOptions, feature_shape: tuple[int, ...], embed_size: int, rng: torch.Generator
) -> PooledImageEncoder:
    """Raises InputError for one vector per image (rows, D)."""
    return PooledImageEncoder(params, regions_width("pooled", feature_shape), embed_size, rng)


def build_text(params: TextPooledOptions, inputs: int, embed_size: int, rng: torch.Generator) -> PooledTextEncoder:
    """inputs: width of a token's vector."""
    return PooledTextEncoder(params, inputs, embed_size, rng)
