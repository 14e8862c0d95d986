"""Structure-preserving loss: both directions, and neighbours within each view stay close (Wang
et al. 2016)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse_pipe.core.devices import sent
from vse_pipe.core.errors import InputError
from vse_pipe.train.losses.options import StructureOptions as Params
from vse_pipe.train.matches import Matches
from vse_pipe.train.scored import LossTerms, Scored, first_row

# The authors add this under the root, so that equal vectors have distance 0.01.
_FLOOR = 1e-4


def loss(batch: Scored, params: Params) -> LossTerms:
    """The hinges ``[m + d(anchor, positive) - d(anchor, negative)]+`` of Eq. 5 with the Euclidean
    distance d.

    Source: Wang, Li, Lazebnik, CVPR 2016, Eq. 5, with at most ``top`` violations of each positive
    pair; summed, or divided by the pairs of the batch (``reduction``). It uses the vectors, not the
    similarity; on unit vectors the ranking equals that of the cosine. An image or text of several
    pairs has the vector of the first of them. Every match in ``Scored.matches`` is a positive pair,
    also outside of the batch's pairs; without ``matches`` every text has one image.
    ``train.mask_same_image`` has no effect.

    The term of a pair: its image against foreign texts, lambda1 times its text against foreign
    images and mined images, lambda2 times its image and each neighbour against other images,
    lambda3 times its text and each neighbour against other texts. A positive outside of the batch's
    pairs counts for the first pair with its text or image.

    ``topk_mean`` (authors' code): d = sqrt(. + 1e-4); means of the ``top`` largest hinges including
    zeros, or of all negatives if they are fewer; the only within-view positive of a text is the
    farthest text of its image, which can be the text itself; mean over pairs.

    Raises InputError for a batch without vectors.
    """
    if batch.images is None or not isinstance(batch.texts, Tensor):
        raise InputError("the loss structure needs the vectors of images and texts, not their scores alone")
    code = params.variant == "topk_mean"
    matches = batch.matches or Matches.by_owner(batch.owners)
    firsts = first_row(matches.images, len(matches.image_kin)), first_row(matches.texts, len(matches.text_kin))
    images, texts = (
        side[sent(first, side.device)] for side, first in zip((batch.images, batch.texts), firsts, strict=True)
    )
    parts, text = _across(images, texts, matches, _mined(batch, matches), params), firsts[1]
    from_images, from_texts = (_placed(part, text[matches.positives.T.nonzero()[:, 0]], batch) for part in parts)
    per_pair = from_images + params.lambda1 * from_texts
    if params.lambda2:
        within = _placed(_within(images, matches.image_kin, params), firsts[0], batch)
        per_pair = per_pair + params.lambda2 * within
    if params.lambda3:
        within = _placed(_within(texts, matches.text_kin, params), text, batch)
        per_pair = per_pair + params.lambda3 * within
    return LossTerms(per_pair, "mean" if code else params.reduction)


def _placed(part: Float[Tensor, " terms"], pairs: Int[Tensor, " terms"], batch: Scored) -> Float[Tensor, " pairs"]:
    return part.new_zeros(len(batch.scores)).index_add(0, sent(pairs, part.device), part)


def _mined(batch: Scored, matches: Matches) -> tuple[Tensor, Tensor] | None:
    """Vectors of mined images, and a mask (texts, mined) of pairs that are no negatives."""
    if batch.mined is None or batch.mined_for is None:
        return None
    foreign = torch.arange(len(matches.text_kin))[:, None] != matches.texts[batch.mined_for][None, :]
    return batch.mined, sent(foreign, batch.mined.device)


def _across(
    images: Float[Tensor, "images dim"],
    texts: Float[Tensor, "texts dim"],
    matches: Matches,
    mined: tuple[Tensor, Tensor] | None,
    params: Params,
) -> tuple[Float[Tensor, " positives"], Float[Tensor, " positives"]]:
    """The terms of each positive pair with its image as anchor and with its text as anchor, in
    the order of texts."""
    distances = euclidean(images, texts, _floor(params))
    cells = matches.positives.T.nonzero(as_tuple=True)
    matching, text, image = (sent(side, distances.device) for side in (matches.positives, *cells))
    positives = distances[image, text]
    from_texts, no_negatives = distances.T, matching.T
    if mined is not None:
        from_texts = torch.cat([from_texts, euclidean(texts, mined[0], _floor(params))], dim=1)
        no_negatives = torch.cat([no_negatives, mined[1]], dim=1)
    text_hinges = hardest_triplets(positives, image, distances, matching, params.margin, params.top)
    image_hinges = hardest_triplets(positives, text, from_texts, no_negatives, params.margin, params.top)
    foreign_texts, foreign_images = (~matching).sum(dim=1)[image], (~no_negatives).sum(dim=1)[text]
    return _reduced(text_hinges, foreign_texts, params), _reduced(image_hinges, foreign_images, params)


def _within(
    vectors: Float[Tensor, "items dim"], kin: Bool[Tensor, "items items"], params: Params
) -> Float[Tensor, " items"]:
    """The terms of each item and its neighbours within one view."""
    distances = euclidean(vectors, vectors, _floor(params))
    siblings = (kin & ~torch.eye(len(kin), dtype=torch.bool)).nonzero(as_tuple=True)
    kin, anchors, neighbours = (sent(side, distances.device) for side in (kin, *siblings))
    if params.variant == "topk_mean":
        anchors = torch.arange(len(kin), device=kin.device)
        farthest = distances.masked_fill(~kin, -torch.inf).max(dim=1).values
        hinges = hardest_triplets(farthest, anchors, distances, kin, params.margin, params.top)
        return _reduced(hinges, (~kin).sum(dim=1), params)
    hinges = hardest_triplets(distances[anchors, neighbours], anchors, distances, kin, params.margin, params.top)
    return distances.new_zeros(len(kin)).index_add(0, anchors, hinges.sum(dim=1))


def _floor(params: Params) -> float:
    return _FLOOR if params.variant == "topk_mean" else 0.0


def _reduced(hinges: Float[Tensor, "pairs top"], negatives: Tensor, params: Params) -> Float[Tensor, " pairs"]:
    """The sum of each row, or for ``topk_mean`` its mean over at most ``negatives`` hinges."""
    if params.variant == "paper":
        return hinges.sum(dim=1)
    return hinges.sum(dim=1) / negatives.clamp(1, max(hinges.shape[1], 1))


def euclidean(
    left: Float[Tensor, "rows dim"], right: Float[Tensor, "items dim"], floor: float = 0.0
) -> Float[Tensor, "rows items"]:
    """``sqrt(|a - b|^2 + floor)``; the gradient of a root of 0 is 0, not NaN."""
    squared = left.square().sum(dim=1)[:, None] + right.square().sum(dim=1)[None, :] - 2 * left @ right.T
    squared = squared.clamp_min(0) + floor
    nonzero = squared > 0
    return torch.where(nonzero, squared.where(nonzero, 1.0).sqrt(), 0.0)


def hardest_triplets(
    positives: Float[Tensor, " pairs"],
    anchors: Int[Tensor, " pairs"],
    distances: Float[Tensor, "anchors items"],
    matching: Bool[Tensor, "anchors items"],
    margin: float,
    top: int,
) -> Float[Tensor, "pairs top"]:
    """The ``top`` largest ``[margin + positive - d(anchor, negative)]+`` of each positive pair,
    falling.

    positives, anchors: distance and anchor of each positive pair; matching: items that are no
    negatives of an anchor. Rows with fewer than ``top`` negatives end with 0. The nearest negatives
    of an anchor are the hardest for all of its pairs, so no array of pairs x items is needed.
    """
    negatives = distances.masked_fill(matching, torch.inf)
    near = negatives.topk(min(top, negatives.shape[1]), dim=1, largest=False).values
    return (margin + positives[:, None] - near[anchors]).clamp_min(0)
