"""Shared layers of SGR and SAF: global vectors by self-attention, and alignments of words and of global vectors."""

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse_pipe.core.errors import InputError
from vse_pipe.ranking import alignment
from vse_pipe.ranking.alignment import EPS, Portion, attention, gram, lengths
from vse_pipe.ranking.fragments import Words


class SelfAttention(nn.Module):
    """One vector for a set of vectors: their mean, weighted by the agreement of each vector with the plain mean.

    regions: with batch normalisation of each region over images and dimensions, which fixes their number (VisualSA);
    None: without (TextSA). Names as in the authors' state_dict.
    """

    def __init__(self, dim: int, dropout: float, regions: int | None) -> None:
        super().__init__()
        self.embedding_local = _branch(dim, dropout, regions)
        self.embedding_global = _branch(dim, dropout, None if regions is None else dim)
        self.embedding_common = nn.Sequential(nn.Linear(dim, 1))

    def forward(self, vectors: Float[Tensor, "sets size dim"]) -> Float[Tensor, "sets dim"]:
        common = self.embedding_local(vectors) * self.embedding_global(vectors.mean(dim=1))[:, None]
        weights = self.embedding_common(common).softmax(dim=1)
        return l2norm((weights * vectors).sum(dim=1))


def _branch(dim: int, dropout: float, channels: int | None) -> nn.Sequential:
    normed = [] if channels is None else [nn.BatchNorm1d(channels)]
    return nn.Sequential(nn.Linear(dim, dim), *normed, nn.Tanh(), nn.Dropout(dropout))


class Alignment(nn.Module):
    """The first layers and the last layer of SGR and SAF."""

    def __init__(self, dim: int, sim_dim: int, regions: int, dropout: float) -> None:
        super().__init__()
        self.regions = regions
        self.v_global_w = SelfAttention(dim, dropout, regions)
        self.t_global_w = SelfAttention(dim, dropout, None)
        self.sim_tranloc_w = nn.Linear(dim, sim_dim)
        self.sim_tranglo_w = nn.Linear(dim, sim_dim)
        self.sim_eval_w = nn.Linear(sim_dim, 1)

    def whole_images(self, images: Float[Tensor, "images regions dim"]) -> Float[Tensor, "images dim"]:
        """Raises InputError for another number of regions than the network's, and in training for a single image."""
        if images.shape[1] != self.regions:
            raise InputError(
                f"this network was built for {self.regions} regions an image, got {images.shape[1]}: "
                "embed the same features that it was trained on"
            )
        if self.training and len(images) < 2:
            raise InputError("batch normalisation over images needs at least two of them: raise train.batch_size")
        return self.v_global_w(images)

    def whole_captions(self, words: Words) -> Float[Tensor, "captions dim"]:
        def part(portion: Portion) -> tuple[Tensor]:
            return (torch.cat([self.t_global_w(chunk) for chunk in portion.chunks(portion.vectors, 0)]).t(),)

        return alignment.over_captions(part, words, words.vectors.shape[1], saved=0)[0].t()

    def nodes(
        self,
        images: Float[Tensor, "images regions dim"],
        global_vectors: tuple[Float[Tensor, "images dim"], Float[Tensor, "captions dim"]],
        inner: Float[Tensor, "images regions regions"],
        portion: Portion,
        temperature: float,
    ) -> Iterator[tuple[Float[Tensor, "images captions 1 sim"], Float[Tensor, "images captions length sim"]]]:
        """For each chunk the alignment of the global vectors and of the words, not yet of unit length."""
        raw = (images.flatten(0, 1) @ portion.vectors.t()).unflatten(0, images.shape[:2])
        chunks = []
        for chunk in portion.chunks(raw, 2):
            weights = attention(chunk, "clipped_l2norm", temperature)
            chunks.append(weights / (lengths(weights, inner)[:, None] + EPS))
        unit_weights = [images.new_ones(len(images), 1, count, 1) for count, _ in portion.shapes]
        return zip(
            alignment.alignments(global_vectors[0][:, None], global_vectors[1], unit_weights, self.sim_tranglo_w),
            alignment.alignments(images, portion.vectors, chunks, self.sim_tranloc_w),
            strict=True,
        )

    def pairs(
        self, images: Float[Tensor, "images regions dim"], texts: Words, temperature: float
    ) -> Callable[..., tuple[Float[Tensor, "pairs 1 1 sim"], Float[Tensor, "pairs 1 length sim"]]]:
        """``nodes`` of single pairs, as a function for ``over_pairs``; values of one side are computed once."""
        whole_images = alignment.over_images(self.whole_images, images)
        whole_captions, inner = self.whole_captions(texts), gram(images)

        def nodes(rows: Tensor, columns: Tensor, words: Float[Tensor, "pairs length dim"]) -> tuple[Tensor, Tensor]:
            regions = images[rows]
            weights = attention(alignment.products(regions, words), "clipped_l2norm", temperature)
            weights = (weights / (lengths(weights, inner[rows])[:, None] + EPS))[:, :, 0]
            local = (torch.bmm(weights.transpose(1, 2), regions) - words).square()
            global_difference = (whole_images[rows] - whole_captions[columns]).square()
            return self.sim_tranglo_w(global_difference)[:, None, None], self.sim_tranloc_w(local)[:, None]

        return nodes


def l2norm(vectors: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
    """Vectors of unit length; 1e-8 is added to the norm as in the authors' code."""
    return vectors / (torch.linalg.vector_norm(vectors, dim=-1, keepdim=True) + EPS)


def draw(network: nn.Module, rng: torch.Generator) -> nn.Module:
    """Linear layers are uniform in +-sqrt(6 / (in + out)), biases 0; batch normalisation starts at 1 and 0."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            bound = math.sqrt(6.0 / (module.in_features + module.out_features))
            nn.init.uniform_(module.weight, -bound, bound, generator=rng)
            nn.init.zeros_(module.bias)
    return network
