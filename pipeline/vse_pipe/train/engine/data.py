"""The training pairs as arrays: everything a batch needs is one gather away."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.processes import Share
from vse_pipe.train.engine.batch import Matches
from vse_pipe.train.engine.incidence import Incidence
from vse_pipe.train.engine.pixels import PixelSource


@dataclass(frozen=True)
class Batch:
    """On the CPU. features: (B, ...) float32, or uint8 pixels (B, crops, S, S, 3); texts: what the text encoder takes, (tokens (B, L), lengths (B,)) int64, (vectors
    (B, L, D) float32, lengths) or (vectors (B, D),) float32; owners: (B,) int64 ids of the images shown; pairs: (B,) positions.
    """

    features: Tensor
    texts: tuple[Tensor, ...]
    owners: Tensor
    pairs: np.ndarray

    def split(self, size: int) -> list["Batch"]:
        """Consecutive parts of ``size`` pairs."""
        return [self.part(slice(start, start + size)) for start in range(0, len(self.pairs), size)]

    def part(self, pairs: slice) -> "Batch":
        """Consecutive pairs; views."""
        texts = tuple(side[pairs] for side in self.texts)
        return Batch(self.features[pairs], texts, self.owners[pairs], self.pairs[pairs])


def image_inputs(array: np.ndarray, rows: np.ndarray) -> Tensor:
    """(len(rows), ...) float32 from an array that may be a memory map of any float type."""
    return torch.from_numpy(array[rows]).float()  # numpy takes ten times as long for float16


def text_inputs(texts: Texts, places: np.ndarray) -> tuple[Tensor, ...]:
    """What the text encoder takes of the captions at ``places``; token ids, or vectors of tokens, are padded to the longest."""
    if texts.tokens is not None:
        tokens, lengths = texts.tokens.padded(places)
        return torch.from_numpy(tokens), torch.from_numpy(lengths)
    assert texts.array is not None  # of vectors
    assert texts.rows is not None
    return (image_inputs(texts.array, texts.rows[places]),)


def text_lengths(texts: Texts, places: np.ndarray) -> np.ndarray:
    """Words of each caption; 1 where the texts are vectors, which are all alike."""
    return texts.tokens.lengths[places] if texts.tokens is not None else np.ones(len(places), np.int64)


@dataclass(frozen=True)
class Pairs:
    """Pair i shows the image ``owners[i]``, feature row ``rows[i]``, with the caption at ``places[i]`` of ``texts``.

    pictures: the images themselves, for encoders that read pixels. mismatched: which pairs are known to show an image that
    the caption does not describe, for records only; None where that is unknown or true of no pair. incidence: where texts
    that read alike are one text, which then has several images; else None.
    """

    array: np.ndarray
    rows: np.ndarray
    texts: Texts
    places: np.ndarray
    owners: np.ndarray
    pictures: PixelSource | None = None
    mismatched: np.ndarray | None = None
    incidence: Incidence | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> np.ndarray:
        return text_lengths(self.texts, self.places)

    def matches(self, pairs: np.ndarray, device: torch.device) -> Matches | None:
        """What belongs together in the batch of these pairs; None where a text has one image, ``owners``."""
        return None if self.incidence is None else self.incidence.of_batch(pairs, device)

    def source(self, pixels: bool) -> np.ndarray | PixelSource:
        """What ``encode.images`` reads: the stored features, or the images as they were extracted."""
        if not pixels:
            return self.array
        assert self.pictures is not None
        return self.pictures

    def batch(self, pairs: np.ndarray) -> Batch:
        return self._batch(pairs, image_inputs(self.array, self.rows[pairs]))

    def batches(self, work: list[np.ndarray], pixels_of: int | None = None) -> Generator[Batch, None, None]:
        """One batch for each array of pairs; pixels_of: the epoch whose pixels they hold, None for stored features."""
        if pixels_of is None:
            yield from map(self.batch, work)
            return
        assert self.pictures is not None
        shares = [Share.of(len(pairs)) for pairs in work]  # to decode a picture takes longer than to send its pixels
        own = [share.take(pairs) for share, pairs in zip(shares, work, strict=True)]
        with contextlib.closing(self.pictures.drawn(self.rows, own, pixels_of)) as reading:
            for pairs, share, pixels in zip(work, shares, reading, strict=True):
                yield self._batch(pairs, share.gather(pixels))

    def _batch(self, pairs: np.ndarray, images: Tensor) -> Batch:
        texts = text_inputs(self.texts, self.places[pairs])
        return Batch(images, texts, torch.from_numpy(self.owners[pairs]), pairs)
