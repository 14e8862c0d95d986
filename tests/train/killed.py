"""A training that is killed between two epochs."""

from itertools import pairwise

import pytest

from vse_pipe.train import checkpoint, loop
from vse_pipe.train.stage import train


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, no clean-up runs but what the stack holds."""


def killed_after(epochs: int, params, run: str) -> None:
    """Train ``run`` until the state after ``epochs`` of its epochs is written, and no further."""
    saved, real = iter(range(1, 10**6)), checkpoint.save

    def save(*arguments):
        real(*arguments)
        if next(saved) == epochs:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.checkpoint, "save", save)
        with pytest.raises(Killed):
            train(params, run, "cpu")


def killed_at(epochs: list[int], params, run: str) -> None:
    """The same again and again: ``run`` goes on from each of these epochs and is killed after the next. A state that comes back
    otherwise than it was makes all that follows another."""
    for before, after in pairwise([0, *epochs]):
        killed_after(after - before, params, run)
