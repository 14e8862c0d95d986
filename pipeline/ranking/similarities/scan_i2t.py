"""SCAN, image to text: every region attends to the words, the image scores by how well its regions are described."""

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
    """aggregate: of the regions' cosines; temperature: lambda_1; lse: lambda_2, of ``aggregate: lse`` alone; norm: of the
    similarities of a word to all regions, the authors' raw_feature_norm. Defaults: the authors' Flickr30k i-t."""

    aggregate: Aggregate = "mean"
    temperature: PositiveFloat = 4.0
    lse: PositiveFloat = 5.0
    norm: Norm = "clipped_l2norm"


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params
) -> Float[Tensor, "images captions"]:
    """Lee et al., Stacked Cross Attention for Image-Text Matching, ECCV 2018, Eq. 7 to 9.

    The authors' code loops over captions; here captions of equal length are scored together, so no padding takes part
    either. A single image or region works, which fails there.
    """

    def block(images: Tensor) -> Tensor:
        regions, long = images.flatten(0, 1), sizes(images)

        def part(portion: Portion) -> tuple[Tensor]:
            raw = (portion.vectors @ regions.t()).unflatten(1, images.shape[:2])
            each = zip(portion.chunks(raw, 0), portion.chunks(portion.vectors, 0), strict=True)
            cosines = (
                stacked(chunk, gram(words), long, params.norm, params.temperature) for chunk, words in each
            )
            found = [aggregated(chunk, params.aggregate, params.lse) for chunk in cosines]
            return (torch.cat(found).t(),)

        return over_captions(part, texts, len(regions), kept=32 * len(regions))[0]

    return over_images(block, images)
