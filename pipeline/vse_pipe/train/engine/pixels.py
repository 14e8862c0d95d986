"""What training knows of an image encoder that reads pixels; its member has the rest."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from torch import Tensor, nn


@runtime_checkable
class PixelSource(Protocol):
    """The images behind the rows of a feature file. batch_size: images at a time where nothing is trained."""

    @property
    def batch_size(self) -> int: ...

    def tested(self, work: Iterable[np.ndarray]) -> Iterator[Tensor]:
        """For each array of rows uint8 (rows, crops, S, S, 3): what ``extract`` showed the network."""

    def drawn(self, rows: np.ndarray, work: Iterable[np.ndarray], epoch: int) -> Generator[Tensor, None, None]:
        """For each array of pairs uint8 (pairs, crops, S, S, 3): what training shows of them in ``epoch``; rows: of all."""


@dataclass(frozen=True)
class PixelNetwork:
    """module: the network with its weights, on the CPU. described: as JSON for config.json, what the member reads back, which
    weights training began with and on which images. depends: everything the features depend on, for the fingerprint.
    """

    module: nn.Module
    described: dict
    depends: dict
