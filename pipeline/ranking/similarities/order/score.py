"""Order violations of all images and texts, some texts at a time."""

import torch
from jaxtyping import Float
from torch import Tensor

from pipeline.ranking.similarities.order import Params

# Differences held at once: 64 MiB of float32.
_AT_ONCE = 1 << 24


def score(
    images: Float[Tensor, "images dim"], texts: Float[Tensor, "texts dim"], params: Params
) -> Float[Tensor, "images texts"]:
    """``-|| max(0, text - image) ||``: 0 where no coordinate of the text exceeds the image's, negative otherwise.

    Vendrov et al., Order-embeddings of images and language, ICLR 2016, Eq. 2. The vectors should not be negative
    (``use_abs``). At a violation of 0 the root passes a gradient of 0; the authors' passes NaN.
    """
    width = max(1, _AT_ONCE // max(1, images.numel()))
    return torch.cat([_score(images, part, params.root) for part in texts.split(width)], dim=1)


def _score(images: Tensor, texts: Tensor, root: bool) -> Tensor:
    squared = (texts[None] - images[:, None]).relu().square().sum(dim=2)
    if not root:
        return -squared
    violated = squared > 0
    return -torch.where(violated, squared.where(violated, 1.0).sqrt(), 0.0)
