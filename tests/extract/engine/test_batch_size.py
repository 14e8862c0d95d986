"""Which batch size the measurement recommends, and where it stops."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vse_pipe.extract import compute
from vse_pipe.extract.compute import Forward, Throughput, best, measure
from vse_pipe.extract.params import FeatureParams

IMAGES = np.zeros((300, 2), np.float32)


class Clock:
    """Seconds that only the networks below let pass: real ones depend on what else the machine does."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _told_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "time", CLOCK)


class Timed(nn.Module):
    """Takes ``start`` seconds a pass and ``each`` an image; holds ``most`` images."""

    def __init__(self, start: float = 0.0, each: float = 0.0, most: int = 10_000) -> None:
        super().__init__()
        self.start, self.each, self.most = start, each, most

    def forward(self, batch: Tensor) -> Tensor:
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        CLOCK.now += self.start + self.each * len(batch)
        return batch


def sizes(module: nn.Module, images: np.ndarray | tuple = IMAGES) -> list[int]:
    forward = Forward(module, FeatureParams(), torch.device("cpu"))
    return [one.batch_size for one in measure(forward, images)]


def test_goes_on_while_it_gains_and_there_are_images() -> None:
    assert sizes(Timed(start=0.01)) == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_stops_at_what_does_not_fit(capsys: pytest.CaptureFixture) -> None:
    assert sizes(Timed(start=0.005, most=9)) == [1, 2, 4, 8]


def test_stops_when_larger_batches_are_slower() -> None:
    class Crowded(Timed):
        def forward(self, batch: Tensor) -> Tensor:
            CLOCK.now += 0.002 * len(batch) ** 1.5
            return batch

    assert sizes(Crowded()) == [1, 2, 4]


def test_takes_tuples() -> None:
    class Pair(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            CLOCK.now += 0.01
            return left + right

    assert sizes(Pair(), (IMAGES[:3], IMAGES[:3]))[:2] == [1, 2]


def test_the_rate_is_images_a_second() -> None:
    forward = Forward(Timed(start=0.02), FeatureParams(), torch.device("cpu"))
    rates = [one.rate for one in measure(forward, IMAGES[:2])]
    assert rates == pytest.approx([50, 100])


def test_the_smallest_that_is_nearly_the_fastest() -> None:
    found = [Throughput(1, 10.0), Throughput(2, 18.0), Throughput(4, 19.5), Throughput(8, 20.0), Throughput(16, 17.0)]
    assert best(found).batch_size == 4
