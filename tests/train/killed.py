"""A training that is killed between two epochs."""

import pytest

from pipeline.train.engine import checkpoint, loop
from pipeline.train.stage import train


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
