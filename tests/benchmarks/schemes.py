"""``python -m tests.benchmarks.schemes``: an epoch of ``l2rm`` after its warm-up against a plain one, in processor time.

Data and model are those of ``tests.benchmarks.train``; for each of ``--rates`` that share of the pairs is taken for mismatched,
as ``split: truth`` has it, so that what is measured does not hang on a split of random numbers. The steps of both take turns; an
epoch is what comes before its first step and the median step times their number. An epoch of l2rm trains the matched pairs and
as many mismatched ones beside them, and begins with the loss of all: the last column says how much of it is that.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from tests.benchmarks import devices, train
from tests.benchmarks.train import show
from vse_pipe.project.registry import SAMPLERS, SCHEMES
from vse_pipe.train.optimise import optimizer_for, step
from vse_pipe.train.scheme import Scheme


class Epoch:
    """One of ``scheme``, its ``number``, over the sampler's batches."""

    def __init__(self, scheme: Scheme, number: int, sampled: list[np.ndarray]) -> None:
        self.scheme, self.optimizer = scheme, optimizer_for(scheme.setting.model, scheme.setting.train)
        self.start = devices.seconds(lambda: scheme.start(number), time.process_time)
        scheme.model.train()
        self.batches = scheme.batches(number, sampled)
        self.steps: list[float] = []

    def run(self, place: int) -> None:
        data, chosen = self.scheme.setting.pairs, self.batches[place % len(self.batches)]
        work = lambda: step(self.scheme, self.optimizer, data.batch(chosen))  # noqa: E731
        self.steps.append(devices.seconds(work, time.process_time))

    @property
    def median(self) -> float:
        return statistics.median(self.steps[1:])  # the first is not counted

    @property
    def seconds(self) -> float:
        return self.start + len(self.batches) * self.median


def measure(rate: float, options: argparse.Namespace, folder: Path) -> None:
    data = train.pairs(folder, options.images, options.vocabulary, zipf=True)
    data = replace(data, mismatched=np.random.default_rng(0).random(len(data)) < rate)
    sampler = SAMPLERS.load("captions")
    sampled = sampler.batches(data.owners, data.lengths, options.batch, sampler.Params(), np.random.default_rng(0))
    plain = train.scheme(data, options, "float32", options.device)
    params = SCHEMES.options("l2rm")(split="truth")
    other = train.scheme(data, options, "float32", options.device)
    l2rm = SCHEMES.load("l2rm").scheme(other.setting, params)
    epochs = [Epoch(plain, params.warm_up, sampled), Epoch(l2rm, params.warm_up, sampled)]
    for place in range(options.steps + 1):
        for epoch in epochs:
            epoch.run(place)
    one, theirs = epochs
    show(
        f"{100 * rate:3.0f} % mismatched: a plain epoch {one.seconds:.1f} s, of l2rm {theirs.seconds:.1f} s: "
        f"{theirs.seconds / one.seconds:.2f} x (bar 1.5); steps {len(theirs.batches)} of {len(one.batches)}, "
        f"each {theirs.median / one.median:.2f} x, and {theirs.start / one.seconds:.2f} x before the first"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"batch": 128, "images": 1000, "vocabulary": 10_000, "steps": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.2, 0.4, 0.6])
    devices.add(parser)
    parser.set_defaults(loss="max", scheme="plain")
    options = parser.parse_args()
    torch.set_num_threads(1)  # processor time of several is not how long they take
    with tempfile.TemporaryDirectory() as folder:
        for rate in options.rates:
            measure(rate, options, Path(folder))


if __name__ == "__main__":
    main()
