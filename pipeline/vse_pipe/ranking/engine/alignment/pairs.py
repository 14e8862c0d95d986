"""Single pairs of an image and a caption, many at once: for those who want few cells of a score matrix."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.ranking.engine.words import Words

# Of pairs whose captions have one length: the places of images and captions, and the words (pairs, length, dim), to a score each.
OfPairs = Callable[[Tensor, Tensor, Tensor], Tensor]
# Numbers of the regions that are gathered at once: 16 MiB of float32.
GATHERED = 1 << 22


def over_pairs(
    of: OfPairs,
    images: Float[Tensor, "images regions dim"],
    texts: Words,
    rows: Int[Tensor, " pairs"],
    columns: Int[Tensor, " pairs"],
) -> Float[Tensor, " pairs"]:
    """What ``of`` gives for image ``rows[i]`` and caption ``columns[i]``, in blocks of captions of equal length: the cost of a
    pair does not depend on which others are asked for, and nothing is padded."""
    lengths = texts.lengths[columns.cpu()]
    order = lengths.argsort(stable=True)
    known, counts = lengths[order].unique_consecutive(return_counts=True)
    starts = texts.starts.to(texts.device)
    at_once = max(1, GATHERED // images[0].numel())
    found = images.new_empty(len(rows))
    for length, alike in zip(known.tolist(), order.to(rows.device).split(counts.tolist()), strict=True):
        inside = torch.arange(length, device=texts.device)
        for places in alike.split(at_once):
            captions = columns[places]
            words = texts.vectors[starts[captions][:, None] + inside]
            found[places] = of(rows[places], captions, words)
    return found


def products(
    contexts: Float[Tensor, "pairs c dim"], queries: Float[Tensor, "pairs q dim"]
) -> Float[Tensor, "pairs c 1 q"]:
    """Inner products of each pair's own vectors, in the shape of those of one context with many sets of queries."""
    return torch.bmm(contexts, queries.transpose(1, 2))[:, :, None]
