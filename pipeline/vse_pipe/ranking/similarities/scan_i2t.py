"""SCAN, image to text: regions attend to words; how well words describe regions."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking import alignment
from vse_pipe.ranking.alignment import Portion, gram, sizes
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.similarities.options import ScanI2tOptions as Params


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params
) -> Float[Tensor, "images captions"]:
    """Lee et al., Stacked Cross Attention for Image-Text Matching, ECCV 2018, Eq. 7 to 9.

    The authors' code loops over captions; here captions of equal length are scored together,
    without padding. A single image or region works; the authors' code fails there."""

    def block(images: Tensor) -> Tensor:
        regions, long = images.flatten(0, 1), sizes(images)

        def part(portion: Portion) -> tuple[Tensor]:
            raw = (portion.vectors @ regions.t()).unflatten(1, images.shape[:2])
            chunks = zip(portion.chunks(raw, 0), portion.chunks(portion.vectors, 0), strict=True)
            cosines = (
                alignment.stacked(chunk, gram(words), long, params.norm, params.temperature) for chunk, words in chunks
            )
            return (torch.cat([alignment.aggregated(chunk, params.aggregate, params.lse) for chunk in cosines]).t(),)

        return alignment.over_captions(part, texts, len(regions), saved=32 * len(regions))[0]

    return alignment.over_images(block, images)


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params
) -> Float[Tensor, "images words regions"]:
    """The attention of every region to the words; its sum over the words is 1."""
    raw = alignment.products(words.expand(len(images), -1, -1), images)
    return alignment.attention(raw, params.norm, params.temperature)[:, :, 0]
