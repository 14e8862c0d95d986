"""SCAN, text to image: every word attends to the regions, the caption scores by how well its words are found."""

import torch
from jaxtyping import Float
from pydantic import PositiveFloat
from torch import Tensor

from pipeline.core.strict import Strict
from pipeline.ranking.engine.alignment.attention import Norm, gram
from pipeline.ranking.engine.alignment.chunks import Portion, over_captions, over_images
from pipeline.ranking.engine.alignment.scan import Aggregate, aggregated, sizes, stacked
from pipeline.ranking.engine.words import Words

larger_is_closer = True
fragments = True


class Params(Strict):
    """aggregate: of the words' cosines; temperature: lambda_1; lse: lambda_2, of ``aggregate: lse`` alone; norm: of the
    similarities of a region to all words, the authors' raw_feature_norm. Defaults: the authors' Flickr30k t-i."""

    aggregate: Aggregate = "mean"
    temperature: PositiveFloat = 9.0
    lse: PositiveFloat = 6.0
    norm: Norm = "clipped_l2norm"


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params
) -> Float[Tensor, "images captions"]:
    """Lee et al., Stacked Cross Attention for Image-Text Matching, ECCV 2018, Eq. 1 to 6.

    The authors' code loops over captions; here captions of equal length are scored together, so no padding takes part
    either. A single image or region works, which fails there.
    """

    def block(images: Tensor) -> Tensor:
        inner, regions = gram(images), images.flatten(0, 1)

        def part(portion: Portion) -> tuple[Tensor]:
            raw = (regions @ portion.vectors.t()).unflatten(0, images.shape[:2])
            each = zip(portion.chunks(raw, 2), portion.chunks(sizes(portion.vectors), 0), strict=True)
            cosines = (stacked(chunk, inner, long, params.norm, params.temperature) for chunk, long in each)
            found = [aggregated(chunk, params.aggregate, params.lse) for chunk in cosines]
            return (torch.cat(found, dim=1),)

        return over_captions(part, texts, len(regions), kept=32 * len(regions))[0]

    return over_images(block, images)
