"""Hinges on Euclidean distances, across images and texts and among the texts of one image."""

import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.core.errors import InputError
from pipeline.train.engine.loss.scored import Scored
from pipeline.train.engine.loss.terms import LossTerms
from pipeline.train.losses.structure import Params
from pipeline.train.losses.structure.triplets import euclidean, hardest

# Added under the root by the authors, so that two equal vectors lie 0.01 apart.
_FLOOR = 1e-4


def loss(batch: Scored, params: Params) -> LossTerms:
    """The hinges ``[m + d(anchor, positive) - d(anchor, negative)]+`` of Eq. 5, d the Euclidean distance.

    Source: Wang, Li, Lazebnik, CVPR 2016, Eq. 5, at most ``top`` violations of each positive pair, summed. It
    reads the vectors, not the similarity; on unit vectors it ranks as the cosine does. Pairs of one owner
    show one image, whose vector is that of its first pair; its texts are all positives, so
    ``train.mask_same_image`` changes nothing. The term of pair i: its image against foreign texts, lambda1
    times its text against foreign images, lambda3 times its text and each of its sibling texts against
    foreign texts, text i being the anchor.

    ``topk_mean`` (authors' code): d = sqrt(. + 1e-4); means of the ``top`` largest hinges, zeros included, of
    fewer where there are fewer negatives; text i has one within-view positive, the farthest text of its
    image, itself included; mean over pairs.

    Raises InputError for a batch without vectors.
    """
    if batch.images is None or batch.texts is None:
        raise InputError("the loss structure needs the vectors of images and texts, not their scores alone")
    code = params.variant == "topk_mean"
    (across, crossed), within = _across(batch, params), _within(batch, params)
    per_pair = across + params.lambda1 * crossed + params.lambda3 * within
    parts = {"images": across, "texts": crossed, "within texts": within}
    parts = {name: (part.mean() if code else part.sum()).detach() for name, part in parts.items()}
    return LossTerms(per_pair, "mean" if code else "sum", parts)


def _across(batch: Scored, params: Params) -> tuple[Float[Tensor, " pairs"], Float[Tensor, " pairs"]]:
    """Terms that the image of each pair anchors, and those that its text anchors."""
    owners, owner = batch.owners.unique(return_inverse=True)
    pairs = torch.arange(len(owner), device=owner.device)
    first = pairs.new_full((len(owners),), len(owner)).scatter_reduce(0, owner, pairs, "amin")
    images, texts = _vectors(batch)
    distances = euclidean(images[first], texts, _floor(params))
    matching = owners[:, None] == batch.owners[None, :]
    positives = distances[owner, pairs]
    of_texts = hardest(positives, owner, distances, matching, params.margin, params.top)
    of_images = hardest(positives, pairs, distances.T, matching.T, params.margin, params.top)
    foreign_texts, foreign_images = (~matching).sum(dim=1)[owner], (~matching).sum(dim=0)
    return _reduced(of_texts, foreign_texts, params), _reduced(of_images, foreign_images, params)


def _vectors(batch: Scored) -> tuple[Tensor, Tensor]:
    """Of images and texts; ``TRAITS`` names no similarity of fragments."""
    assert batch.images is not None
    assert isinstance(batch.texts, Tensor)
    return batch.images, batch.texts


def _within(batch: Scored, params: Params) -> Float[Tensor, " pairs"]:
    """Terms of the sibling texts of each pair's text."""
    _, texts = _vectors(batch)
    distances = euclidean(texts, texts, _floor(params))
    kin = batch.owners[:, None] == batch.owners[None, :]
    if params.variant == "topk_mean":
        anchors = torch.arange(len(kin), device=kin.device)
        farthest = distances.masked_fill(~kin, -torch.inf).max(dim=1).values
        hinges = hardest(farthest, anchors, distances, kin, params.margin, params.top)
        return _reduced(hinges, (~kin).sum(dim=1), params)
    anchors, siblings = (kin & ~torch.eye(len(kin), dtype=torch.bool, device=kin.device)).nonzero(as_tuple=True)
    hinges = hardest(distances[anchors, siblings], anchors, distances, kin, params.margin, params.top)
    return distances.new_zeros(len(kin)).index_add(0, anchors, hinges.sum(dim=1))


def _floor(params: Params) -> float:
    return _FLOOR if params.variant == "topk_mean" else 0.0


def _reduced(hinges: Float[Tensor, "pairs kept"], negatives: Tensor, params: Params) -> Float[Tensor, " pairs"]:
    """The sum of each row, or its mean over the negatives it has."""
    if params.variant == "paper":
        return hinges.sum(dim=1)
    return hinges.sum(dim=1) / negatives.clamp(1, min(params.top, len(hinges)))
