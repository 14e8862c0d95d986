"""A number for every training pair under the model as it is: what matched and mismatched pairs are told apart by."""

import contextlib
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from vse_pipe.core.console import track
from vse_pipe.core.seeds import generator
from vse_pipe.train.engine.data import Pairs
from vse_pipe.train.engine.loss.scored import Scored
from vse_pipe.train.engine.model import DualEncoder


def groups(pairs: int, size: int, seed: int, epoch: int) -> list[ndarray]:
    """All pairs in random batches of ``size``, which follow from (seed, epoch). No batch has a single pair: it joins the
    one before."""
    order = generator(seed, "samples", epoch).permutation(pairs)
    starts = list(range(0, pairs, size))
    if len(starts) > 1 and pairs - starts[-1] == 1:
        starts.pop()
    return np.split(order, starts[1:])


@torch.inference_mode()
def of_pairs(
    model: DualEncoder,
    pairs: Pairs,
    work: list[ndarray],
    device: torch.device,
    judge: Callable[[Scored], Tensor],
    mask_same_image: bool = False,
    precision: str = "float32",
    pixels_of: int | None = None,
    title: str = "losses of pairs",
) -> Float[ndarray, " pairs"]:
    """What ``judge`` says of each pair within its batch of ``work``, in evaluation mode and without gradients.

    Works with any model that has ``encode`` and ``score``. judge: a batch to (pairs,) numbers; pixels_of: the epoch whose
    crops are shown, for encoders that read images. A value depends on which pairs share the batch. Pairs that are in no
    batch are NaN. Raises InputError for a batch of one pair.
    """
    found = np.full(len(pairs), np.nan)
    was_training = model.training
    model.eval()
    try:
        with contextlib.closing(pairs.batches(work, pixels_of)) as reading:
            for batch in track(reading, len(work), title):
                images, texts = model.encode(batch, device, precision)
                scores = model.score(images, texts)
                matches = pairs.matches(batch.pairs, scores.device)
                scored = Scored.of(scores, batch.owners.to(scores.device), mask_same_image, matches=matches)
                found[batch.pairs] = judge(scored).cpu().numpy()
    finally:
        model.train(was_training)
    return found
