"""Training steps and memory of poolings, in turn in one process: ``python -m tests.benchmarks.pooling``.

A step is everything that an epoch does for a batch: features and words to vectors, ``max``, gradients and Adam. Pooled are
36 regions of 2048 numbers and captions of 8 to 20 words, both to 1024 dimensions; a fifth of either is dropped.
``--device cuda`` measures there.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from functools import partial

import numpy as np
import torch

from tests.benchmarks import devices
from tests.benchmarks.train import show
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.text import Tokens
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train.data import Pairs
from vse_pipe.train.model import build, objective
from vse_pipe.train.optimise import optimizer_for, step
from vse_pipe.train.scheme import Scheme, Setting

POOLINGS = ("mean", "gpo")
WIDTH, DIM, WORDS = 2048, 1024, 8000


def pairs(options: argparse.Namespace) -> Pairs:
    rng = np.random.default_rng(0)
    places = np.arange(options.batch)
    lengths = rng.integers(8, 21, options.batch)
    tokens = Tokens(rng.integers(4, WORDS, lengths.sum()), lengths.cumsum() - lengths, lengths)
    texts = Texts("tokens", places, {}, tokens, [str(word) for word in range(WORDS)], None, None)
    array = rng.standard_normal((options.batch, options.regions, WIDTH)).astype(np.float32)
    return Pairs(array, places, texts, places, places)


def member(family, name: str, **values: object) -> Member:
    return Member(name, family.options(name)(**values))


def scheme(data: Pairs, pooling: str, device: torch.device) -> Scheme:
    image = member(IMAGE_ENCODERS, "pooled", pooling=pooling)
    text = member(TEXT_ENCODERS, "gru", pooling=pooling, bidirectional=True, drop_words=0.2)
    loss, shape = member(LOSSES, "max"), data.array.shape[1:]
    model = build(image, text, member(SIMILARITIES, "cosine"), shape, WORDS, DIM, seed=0).train()
    model.to(device)
    return Scheme(Setting(model, objective(loss, model), data, TrainParams(), 0, device))


def measure(poolings: list[str], options: argparse.Namespace) -> None:
    data = pairs(options)
    work = {name: scheme(data, name, options.device) for name in poolings}
    optimizers = {name: optimizer_for(one.model, one.setting.train) for name, one in work.items()}
    seconds: dict[str, list[float]] = {name: [] for name in poolings}
    clock = time.process_time if options.processor else time.perf_counter
    for _ in range(options.rounds + 1):  # the first is not counted
        for name, one in work.items():
            once = partial(step, one, optimizers[name], data.batch(np.arange(options.batch)))
            seconds[name].append(devices.seconds(once, clock))
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for name, median in medians.items():
        ratio = f", {median / medians['mean']:.2f} of mean" if len(medians) > 1 else f", {memory:.0f} MiB at most"
        show(f"{name}: {median:.3f} s a step{ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"batch": 128, "regions": 36, "threads": 2, "rounds": 7}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    devices.add(parser)
    parser.add_argument("--only", choices=POOLINGS, help="one pooling, and the memory of the process")
    parser.add_argument("--processor", action="store_true", help="count processor time")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    measure([options.only] if options.only else list(POOLINGS), options)
    if not options.only:
        for name in POOLINGS:
            subprocess.run([sys.executable, "-m", __spec__.name, *sys.argv[1:], "--only", name], check=True)


if __name__ == "__main__":
    main()
