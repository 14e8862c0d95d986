"""Late interaction: every word takes the region that is most similar to it (ColBERT, FILIP)."""

import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.ranking import alignment
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.similarities.options import MaxsimOptions as Params


def score(
    images: Float[Tensor, "images regions dim"], texts: Words, params: Params
) -> Float[Tensor, "images captions"]:
    """The mean, or the sum, over the words of the largest inner product with a region.

    Source: Khattab and Zaharia, ColBERT, SIGIR 2020, Eq. 3 (the sum); Yao et al., FILIP, ICLR 2022,
    Eq. 5 (the mean). FILIP adds the mean over the regions in training; here the words alone ask."""

    def block(images: Tensor) -> Tensor:
        regions = images.flatten(0, 1)

        def part(portion: alignment.Portion) -> tuple[Tensor]:
            best = (regions @ portion.vectors.t()).unflatten(0, images.shape[:2]).amax(dim=1)
            chunks = portion.chunks(best, 1)
            return (torch.cat([alignment.aggregated(chunk, params.aggregate, 1.0) for chunk in chunks], dim=1),)

        return alignment.over_captions(part, texts, len(regions), saved=8 * len(regions))[0]

    return alignment.over_images(block, images)


def regions(
    images: Float[Tensor, "images regions dim"], words: Float[Tensor, "words dim"], params: Params
) -> Float[Tensor, "images words regions"]:
    """Inner products; a word's score is the largest."""
    return images.matmul(words.t()).transpose(1, 2)
