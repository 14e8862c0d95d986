"""``python -m tests.benchmarks.train``: optimisation steps of the pipeline against bare ones, and the share of the machine used.

Random 2048-d features in a memory map, captions of 8 to 20 words, GRU 1024, vocabulary 10,000. For every batch of an epoch,
in turn: the bare step (forward, backward and Adam on a batch made before, its pairs' summed cosine for a loss) and the
pipeline's (sampling, gather, padding, loss, clipping and all), each with the GRU of PyTorch and with the pipeline's own, and
in bfloat16. Medians count, because machines are shared. ``--batch 512 --loss hal --scheme memory_bank`` and so on;
``--device cuda`` measures there, with the GRU of PyTorch alone.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch

from tests.benchmarks import devices
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.text import Tokens
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SAMPLERS, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train.data import Pairs
from vse_pipe.train.encoders.text import gru as encoder
from vse_pipe.train.model import build, objective
from vse_pipe.train.optimise import optimizer_for, step
from vse_pipe.train.scheme import Scheme, Setting

FEATURES, WORD_DIM, DIM = 2048, 300, 1024
KERNELS = ("nn.GRU", "own GRU")


def show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Clock:
    """Wall clock, or this process' processor time: steadier beside other processes, right for one thread only."""

    read = staticmethod(time.perf_counter)


def seconds(work: Callable[[], object]) -> float:
    return devices.seconds(work, Clock.read)


def pairs(folder: Path, images: int, vocabulary: int, zipf: bool) -> Pairs:
    """Five captions an image; words drawn alike, or by their rank as in language."""
    rng = np.random.default_rng(0)
    np.save(folder / "features.npy", rng.standard_normal((images, FEATURES), dtype=np.float32))
    array = np.load(folder / "features.npy", mmap_mode="r")
    lengths = rng.integers(8, 21, 5 * images)
    chances = 1 / np.arange(1, vocabulary + 1) if zipf else np.ones(vocabulary)
    ids = rng.choice(vocabulary, lengths.sum(), p=chances / chances.sum())
    places = np.arange(5 * images)
    tokens = Tokens(ids, lengths.cumsum() - lengths, lengths)
    texts = Texts("tokens", places, {}, tokens, [str(word) for word in range(vocabulary)], None, None)
    owners = places // 5
    return Pairs(array, owners, texts, places, owners)


def scheme(data: Pairs, options: argparse.Namespace, precision: str, device: torch.device) -> Scheme:
    def member(family, name: str) -> Member:
        return Member(name, family.options(name)())

    text = Member("gru", TEXT_ENCODERS.options("gru")(word_dim=WORD_DIM))
    image, similarity = member(IMAGE_ENCODERS, "linear"), member(SIMILARITIES, "cosine")
    loss = member(LOSSES, options.loss)
    model = build(image, text, similarity, (FEATURES,), options.vocabulary, DIM, seed=0, loss=loss).train()
    model.to(device)
    train = TrainParams(batch_size=options.batch, precision=precision)
    setting = Setting(model, objective(loss, model), data, train, 0, device)
    found = SCHEMES.load(options.scheme)
    return found.scheme(setting, found.Params())


def bare(scheme: Scheme, optimizer: torch.optim.Optimizer, batch) -> None:
    setting = scheme.setting
    optimizer.zero_grad(set_to_none=True)
    images, texts = setting.model.encode(batch, setting.device, setting.train.precision)
    (-(images * texts).sum()).backward()
    optimizer.step()


@contextmanager
def recurrence(kernel: str) -> Iterator[None]:
    """The text encoder with one of ``KERNELS``."""
    before = encoder._can_be_packed
    if kernel == "nn.GRU":
        encoder._can_be_packed = lambda rnn, device: False
    try:
        yield
    finally:
        encoder._can_be_packed = before


def peak(rows: int = 2048, device: torch.device = devices.CPU) -> float:
    """GFLOP/s of one large product in float32."""
    left, right, out = (torch.randn(rows, rows, device=device) for _ in range(3))
    return 2 * rows**3 / min(seconds(lambda: torch.mm(left, right, out=out)) for _ in range(3)) / 1e9


def flop(batch) -> float:
    """Multiplications and additions of the matrix products of a step: forward, and twice as much backward.

    The first word of a caption has no recurrent product, the features of an image need no gradient.
    """
    tokens, captions = int(batch.texts[1].sum()), len(batch.pairs)
    gates = 3 * DIM
    text = tokens * WORD_DIM * gates + (tokens - captions) * DIM * gates
    return 2.0 * (3 * text + 2 * captions * FEATURES * DIM)


class Variant:
    """A model of its own in one precision and with one kernel; seconds of its bare and whole steps."""

    def __init__(self, kernel: str, precision: str, data: Pairs, options: argparse.Namespace) -> None:
        self.kernel, self.scheme = kernel, scheme(data, options, precision, options.device)
        self.name = f"{kernel}, {precision}"
        self.optimizer = optimizer_for(self.scheme.setting.model, self.scheme.setting.train)
        self.bare: list[float] = []
        self.whole: list[float] = []
        with recurrence(kernel):
            self.start = seconds(lambda: self.scheme.start(1))

    def run(self, chosen: np.ndarray) -> None:
        """Both kinds of step on the same pairs, the first of the last call now second."""
        data = self.scheme.setting.pairs
        batch = data.batch(chosen)
        works = [
            (self.bare, lambda: bare(self.scheme, self.optimizer, batch)),
            (self.whole, lambda: step(self.scheme, self.optimizer, data.batch(chosen))),
        ]
        with recurrence(self.kernel):
            for times, work in works if len(self.bare) % 2 else reversed(works):
                times.append(seconds(work))


def bfloat16_units() -> str | None:
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    return next((name for name in ("amx_bf16", "avx512_bf16") if name in flags), None)


def report(variants: list[Variant], batches: list[np.ndarray], sampling: float, rates: list[float]) -> None:
    """sampling: seconds for the batches of a whole epoch; what a scheme does at the start of one counts as well."""
    data = variants[0].scheme.setting.pairs
    size = statistics.mean(len(chosen) for chosen in batches)
    work = statistics.mean(flop(data.batch(chosen)) for chosen in batches) / size
    rate = statistics.median(rates)
    show(f"{work / 1e6:.0f} MFLOP a pair in matrix products; this machine's products: {rate:.0f} GFLOP/s in float32")
    first = None
    for variant in variants:
        plain = statistics.median(variant.bare)
        each = (sampling + variant.start) / len(batches)
        ours = statistics.median(variant.whole) + each
        first = first or ours
        show(
            f"{variant.name:20}{size / plain:8.0f} pairs/s bare{size / ours:8.0f} pairs/s whole"
            f"{ours / plain:7.2f} x bare (bar 1.15){100 * work * size / ours / rate / 1e9:6.0f} % of the rate"
            f"{first / ours:7.2f} x the first; start of the epoch {1000 * each:.1f} ms a step"
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {"batch": 128, "images": 3000, "vocabulary": 10_000, "steps": 10, "threads": 2}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    devices.add(parser)
    parser.add_argument("--bucket", type=int, default=1, help="sampler.captions.bucket")
    parser.add_argument("--loss", default="max")
    parser.add_argument("--scheme", default="plain")
    parser.add_argument("--processor", action="store_true", help="count processor time; with --threads 1")
    parser.add_argument("--zipf", action="store_true", help="frequent and rare words, as in language")
    parser.add_argument("--only", nargs="*", default=None, help="'own GRU, float32' and so on")
    return parser.parse_args()


def measure(data: Pairs, options: argparse.Namespace) -> None:
    sampler = SAMPLERS.load("captions")
    chosen = partial(sampler.batches, data.owners, data.lengths, options.batch)
    params = sampler.Params(bucket=options.bucket)
    sampling = seconds(lambda: chosen(params, np.random.default_rng(0)))
    batches = chosen(params, np.random.default_rng(0))
    kernels = KERNELS if options.device.type == "cpu" else KERNELS[:1]
    names = [(kernel, precision) for precision in ("float32", "bfloat16") for kernel in kernels]
    wanted = [name for name in names if options.only is None or ", ".join(name) in options.only]
    variants = [Variant(*name, data, options) for name in wanted]
    for variant in variants:  # compiled and warm
        variant.run(batches[0])
        variant.bare.clear(), variant.whole.clear()
    rates = []
    for batch in batches[: options.steps]:
        rates.append(peak(device=options.device))
        for variant in variants:
            variant.run(batch)
    report(variants, batches, sampling, rates)


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.processor:
        Clock.read = staticmethod(time.process_time)
    units = bfloat16_units()
    show(
        f"{options.device}; bfloat16 on the CPU: {units}"
        if units
        else "this CPU has no bfloat16 units: bfloat16 is slower than float32"
    )
    threads = f"{options.threads} threads, {'processor time' if options.processor else 'wall clock'}"
    show(f"batch {options.batch}, loss {options.loss}, scheme {options.scheme}, {threads}, medians")
    with tempfile.TemporaryDirectory() as folder:
        measure(pairs(Path(folder), options.images, options.vocabulary, options.zipf), options)


if __name__ == "__main__":
    main()
