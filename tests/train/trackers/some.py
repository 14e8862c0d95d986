"""A training to tell trackers of."""

from pathlib import Path

import pytest

from vse_pipe.train.engine.tracking import Training

PARAMETERS = {"loss": "max", "loss.margin": 0.2, "train.epochs": 3, "text.vectors": "null", "image.no_imgnorm": False}
ROWS = [{"epoch": n, "lr": 0.5, "loss": 1 / n, "val_rsum": 100.0 + n} for n in (1, 2, 3)]
MARK = "0123456789abcdef" * 4


def training(mark: str = MARK) -> Training:
    return Training("max/1", mark, PARAMETERS, Path("data/track"), Path("max/1"))


def without(package: str, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """As if ``package`` were not installed."""
    import sys

    for name in (package, *modules):
        monkeypatch.setitem(sys.modules, name, None)


def interrupted(start, params) -> None:
    """Told of two epochs and killed; then, of all three, by a call that goes on."""
    first = start(training(), params)
    first.follow([])
    first.follow(ROWS[:1])
    first.follow(ROWS[:2])
    first.close(False)
    second = start(training(), params)
    second.follow(ROWS[:2])
    second.follow(ROWS)
    second.close(True)
