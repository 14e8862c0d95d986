"""SCAN, text to image: words attend to regions; how well regions show words."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.similarities.options import ScanT2iOptions as Params


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params
) -> Float[Tensor, "images captions"]:
    """Lee et al., Stacked Cross Attention for Image-Text Matching, ECCV 2018, Eq. 1 to 6.

    The authors' code loops over captions; here captions of equal length are scored together,
    without padding. A single image or region works; the authors' code fails there."""

    def block(images: Tensor) -> Tensor:
        inner, regions = alignment.gram(images), images.flatten(0, 1)

        def part(portion: alignment.Portion) -> tuple[Tensor]:
            raw = (regions @ portion.vectors.t()).unflatten(0, images.shape[:2])
            chunks = zip(portion.chunks(raw, 2), portion.chunks(alignment.sizes(portion.vectors), 0), strict=True)
            cosines = (alignment.stacked(chunk, inner, long, params.norm, params.temperature) for chunk, long in chunks)
            scores = [alignment.aggregated(chunk, params.aggregate, params.lse) for chunk in cosines]
            return (torch.cat(scores, dim=1),)

        return alignment.over_captions(part, texts, len(regions), saved=32 * len(regions))[0]

    return alignment.over_images(block, images)


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params
) -> Float[Tensor, "images words regions"]:
    """The attention of every word to the regions."""
    return alignment.attended(images, words, params.norm, params.temperature)
