"""Scores that cost too much to be computed twice: once, tile by tile, into memory or into a temporary file."""

import os
import tempfile
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.core import console, processes
from vse_pipe.ranking.engine.fragments import Sides

# Images and captions of a tile. A similarity bounds its own memory; a tile bounds what lies between two signs of life.
_TILE = (128, 512)
_MIB = 1 << 20
_HELD_SHARE = 4


class ScoreMatrix:
    """The scores of all images with all captions under ``similarity``, computed when they are first asked for.

    memory: MiB for all of an evaluation; a matrix of more than a quarter of it lies in a temporary file, which the system
    removes with the process. 0 for no limit.
    """

    def __init__(self, images: Sides, captions: Sides, similarity: Callable, memory: int) -> None:
        self.shape = (len(images), len(captions))
        self._images, self._captions, self._similarity, self._memory = images, captions, similarity, memory

    @cached_property
    def matrix(self) -> Float[Tensor, "images captions"]:
        found = empty(self.shape, self._memory, self._images.device)
        tiles = [
            (slice(i, min(i + _TILE[0], self.shape[0])), slice(t, min(t + _TILE[1], self.shape[1])))
            for i in range(0, self.shape[0], _TILE[0])
            for t in range(0, self.shape[1], _TILE[1])
        ]
        label = f"scoring {self.shape[0]} images and {self.shape[1]} captions"
        scored = processes.each(partial(map, partial(_tile, self._images, self._captions, self._similarity)), tiles)
        for tile, scores in zip(console.track(tiles, len(tiles), label), scored, strict=True):
            found[tile] = scores
        return found


def _tile(images: Sides, captions: Sides, similarity: Callable, places: tuple[slice, slice]) -> Tensor:
    return similarity(images[places[0]], captions[places[1]]).detach()


def empty(shape: tuple[int, int], memory: int, device: torch.device) -> Float[Tensor, "images captions"]:
    """Room for scores, in a temporary file where it is more than a quarter of ``memory`` MiB; 0 for no limit."""
    rows, columns = shape
    if memory and rows * columns * 4 * _HELD_SHARE > memory * _MIB:
        # The map keeps the file, which has no name, as long as it lives.
        with tempfile.TemporaryFile() as file:
            # Room for all of it now: a full disk is then an error and not a SIGBUS.
            os.posix_fallocate(file.fileno(), 0, rows * columns * 4)
            return torch.from_numpy(np.memmap(file, np.float32, "r+", shape=shape))
    return torch.empty(shape, device=device)
