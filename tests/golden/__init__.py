"""The arrays of a file, and the comparison of a stored output with ours."""

from pathlib import Path

import numpy as np
import torch

# Name of the array, largest absolute difference, difference allowed.
Result = tuple[str, float, float]
TIGHT = {"atol": 1e-9, "rtol": 1e-9}


class Vectors(dict[str, np.ndarray]):
    """The arrays of the .npz file at ``path``."""

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as file:
            super().__init__(file)
        self.path = path

    def leaves(self, *names: str) -> list[torch.Tensor]:
        """Tensors that collect a gradient."""
        return [torch.tensor(self[name], requires_grad=True) for name in names]

    def weights(self, prefix: str = "w/") -> dict[str, torch.Tensor]:
        """The arrays whose names begin with ``prefix``, by the rest of the name."""
        return {
            name.removeprefix(prefix): torch.tensor(array) for name, array in self.items() if name.startswith(prefix)
        }

    def compared(self, atol: float = 1e-5, rtol: float = 1e-4, **ours) -> list[Result]:
        """``compare`` of each of ``ours`` with the array of its name."""
        return [compare(name, value, self[name], atol, rtol) for name, value in ours.items()]


def compare(name: str, ours, stored, atol: float = 1e-5, rtol: float = 1e-4) -> Result:
    """(array name, largest absolute difference, the difference allowed: ``atol + rtol * max |stored|``).

    A wrong shape or a value that is not finite on one side only is an infinite difference.
    """
    if isinstance(ours, torch.Tensor):
        ours = ours.detach()
    ours, stored = np.asarray(ours, dtype=np.float64), np.asarray(stored, dtype=np.float64)
    if ours.shape != stored.shape:
        return name, float("inf"), 0.0
    if stored.size == 0:
        return name, 0.0, atol
    difference = np.abs(ours - stored)
    largest = float(np.where(np.isnan(difference), np.inf, difference).max())
    return name, largest, float(atol + rtol * np.abs(stored).max())


def exact(name: str, ours, stored) -> Result:
    """As ``compare``, nothing allowed: for integers and index lists."""
    return compare(name, ours, stored, atol=0.0, rtol=0.0)
