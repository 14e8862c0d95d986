"""Run a trained dual encoder over many images or captions, in batches, without gradients; results lie on the CPU.

Of processes that train as one each encodes a share, and all get everything.
"""

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import processes
from vse_pipe.core.console import track
from vse_pipe.core.processes import Share
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.engine.data import image_inputs, text_inputs, text_lengths
from vse_pipe.train.engine.model import DualEncoder
from vse_pipe.train.engine.pixels import PixelSource


def images(
    model: DualEncoder,
    source: np.ndarray | PixelSource,
    rows: np.ndarray,
    device: torch.device,
    batch: int = 1024,
    shown: str = "",
) -> Tensor:
    """(len(rows), dim) or (len(rows), R, dim) float32 of the feature rows given, from the features or from the images
    behind them. shown: what a progress line calls the work; none without."""
    share = Share.of(len(rows))
    rows = share.take(rows)
    size = batch if isinstance(source, np.ndarray) else min(batch, source.batch_size)

    def encoded(work: Iterable[np.ndarray]) -> Iterator[Tensor]:
        given = map(partial(image_inputs, source), work) if isinstance(source, np.ndarray) else source.tested(work)
        for chosen in given:
            yield model.img(chosen.to(device))

    parts = _parts(np.arange(len(rows)), size)
    with evaluating(model):
        found = processes.each(encoded, _parts(rows, size), _cost(source, size))
        return share.gather(_placed(_told(found, parts, shown), parts))


def captions(
    model: DualEncoder, texts: Texts, places: np.ndarray, device: torch.device, batch: int = 256, shown: str = ""
) -> Tensor | Words:
    """(len(places), dim) float32 vectors of the captions given, or their words; batches hold captions of like length.
    shown: as of ``images``."""
    lengths = text_lengths(texts, places)
    order, share = processes.dealt(torch.from_numpy(np.argsort(lengths, kind="stable")))
    own = share.take(order).numpy()
    # Where each of these stands in what is given back, or in what this process has of it.
    parts = _parts(own, batch)
    placed = parts if len(own) == len(places) else _parts(np.arange(len(own)), batch)

    def read(inputs: tuple[Tensor, ...]) -> Tensor | Words:
        return model.captions(inputs, device)

    with evaluating(model):
        # Vectors or words, as the model has them.
        encoded: Iterator[Any] = processes.each(
            partial(map, read), (text_inputs(texts, places[part]) for part in parts)
        )
        if not model.fragments:
            vectors = _placed(_told(encoded, parts, shown), placed)
            return vectors if placed is parts else share.gather(vectors)[order.argsort()]
        words = Words.cat([one.float().to(torch.device("cpu")) for one in encoded])
        if placed is not parts:
            said = torch.from_numpy(lengths)[order]
            words = Words(share.of_parts(said).gather(words.vectors), said)
        return words.take(order.argsort())


def _cost(source: np.ndarray | PixelSource, size: int) -> int:
    """Bytes of a batch as it is read; pixels are told by nobody."""
    return 4 * size * int(np.prod(source.shape[1:])) if isinstance(source, np.ndarray) else 0


@contextlib.contextmanager
def evaluating(model: DualEncoder) -> Iterator[None]:
    """Without gradients and as in evaluation; afterwards the model is in the mode it was."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def _parts(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def _told(encoded: Iterable[Tensor], parts: list[np.ndarray], shown: str) -> Iterable[Tensor]:
    return track(encoded, len(parts), shown) if shown else encoded


def _placed(encoded: Iterable[Tensor], parts: list[np.ndarray]) -> Tensor:
    """parts: places of what each of ``encoded`` holds."""
    whole = torch.empty((0, 0))
    for part, chosen in zip(parts, encoded, strict=True):
        if not len(whole):
            whole = torch.empty((sum(map(len, parts)), *chosen.shape[1:]))
        whole[torch.from_numpy(part)] = chosen.float().cpu()
    return whole
