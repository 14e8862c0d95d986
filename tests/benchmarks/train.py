"""``python -m tests.benchmarks.train NAME``: steps of training, each measured in turn with what it is compared with."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from tests.benchmarks.measure import benchmark, peak_mib, run, seconds, show
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import processes as core_processes
from vse_pipe.core.text import Tokens
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SAMPLERS, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train import processes as training_processes
from vse_pipe.train.data import Batch, Pairs
from vse_pipe.train.encoders.text import gru
from vse_pipe.train.model import build, objective
from vse_pipe.train.optimise import optimizer_for, step
from vse_pipe.train.scheme import Scheme, Setting

FEATURES, WORD_DIM, DIM = 2048, 300, 1024
KERNELS = ("nn.GRU", "own GRU")
POOLINGS = ("mean", "gpo")
_WARM_UP = 2


@benchmark(
    batch=128, images=3000, vocabulary=10_000, steps=10, threads=2, bucket=1, loss="max", scheme="plain",
    device="cpu", processor=False, zipf=False, only=[],
)  # fmt: skip
def steps(options: argparse.Namespace) -> None:
    """Optimisation steps of the pipeline against bare ones, and the share of the machine used.

    Random 2048-d features in a memory map, captions of 8 to 20 words, GRU 1024, vocabulary 10,000. For every batch of
    an epoch, in turn: the bare step (forward, backward and Adam on a batch made before, its pairs' summed cosine for
    a loss) and the pipeline's (sampling, gather, padding, loss, clipping and all), each with the GRU of PyTorch and
    with the pipeline's own, and in bfloat16. Medians count. --bucket: of the sampler; --zipf: frequent and rare
    words, as in language; --only "own GRU, float32" and so on. A GPU has the GRU of PyTorch alone.
    """
    units = bfloat16_units()
    show(f"{options.device}; bfloat16 units of the CPU: {units or 'none, so that bfloat16 is slower than float32'}")
    threads = f"{options.threads} threads, {'processor time' if options.processor else 'wall clock'}"
    show(f"batch {options.batch}, loss {options.loss}, scheme {options.scheme}, {threads}, medians")
    with tempfile.TemporaryDirectory() as folder:
        data = _pairs(Path(folder), options, options.zipf)
        sampler = SAMPLERS.load("captions")
        params = sampler.Params(bucket=options.bucket)
        sample = partial(sampler.batches, data.owners, data.lengths, options.batch, params)
        sampling = seconds(lambda: sample(np.random.default_rng(0)))
        batches = sample(np.random.default_rng(0))
        kernels = KERNELS if options.device.type == "cpu" else KERNELS[:1]
        variants = [
            Variant(kernel, precision, data, options)
            for precision in ("float32", "bfloat16")
            for kernel in kernels
            if not options.only or f"{kernel}, {precision}" in options.only
        ]
        for variant in variants:  # compiled and warm
            variant.run(batches[0])
            variant.bare.clear(), variant.whole.clear()
        rates = []
        for batch in batches[: options.steps]:
            rates.append(peak(options.device))
            for variant in variants:
                variant.run(batch)
        _report(variants, batches, sampling, statistics.median(rates))


class Variant:
    """A model of its own in one precision and with one kernel; seconds of its bare and whole steps."""

    def __init__(self, kernel: str, precision: str, data: Pairs, options: argparse.Namespace) -> None:
        self.kernel, self.name = kernel, f"{kernel}, {precision}"
        self.scheme = _scheme(data, options, options.device, precision, options.loss, options.scheme)
        self.optimizer = optimizer_for(self.scheme.setting.model, self.scheme.setting.train)
        self.bare: list[float] = []
        self.whole: list[float] = []
        with _recurrence(kernel):
            self.start = seconds(lambda: self.scheme.start(1))

    def run(self, places: np.ndarray) -> None:
        """Both kinds of step on the same pairs; the order changes from call to call."""
        data = self.scheme.setting.pairs
        batch = data.batch(places)
        works = [
            (self.bare, lambda: self._bare_step(batch)),
            (self.whole, lambda: step(self.scheme, self.optimizer, data.batch(places))),
        ]
        with _recurrence(self.kernel):
            for times, work in works if len(self.bare) % 2 else reversed(works):
                times.append(seconds(work))

    def _bare_step(self, batch: Batch) -> None:
        setting = self.scheme.setting
        self.optimizer.zero_grad(set_to_none=True)
        images, texts = setting.model.encode(batch, setting.device, setting.train.precision)
        (-(images * texts).sum()).backward()
        self.optimizer.step()


@contextmanager
def _recurrence(kernel: str) -> Iterator[None]:
    """The text encoder with one of ``KERNELS``."""
    before = gru._can_be_packed
    if kernel == "nn.GRU":
        gru._can_be_packed = lambda rnn, device: False
    try:
        yield
    finally:
        gru._can_be_packed = before


def _report(variants: list[Variant], batches: list[np.ndarray], sampling: float, rate: float) -> None:
    """sampling: seconds for the batches of a whole epoch; what a scheme does at the start of one counts as well."""
    data = variants[0].scheme.setting.pairs
    size = statistics.mean(len(places) for places in batches)
    work = statistics.mean(_flop(data.batch(places)) for places in batches) / size
    show(f"{work / 1e6:.0f} MFLOP a pair in matrix products; this machine's products: {rate:.0f} GFLOP/s in float32")
    first = None
    for variant in variants:
        bare = statistics.median(variant.bare)
        start = (sampling + variant.start) / len(batches)
        ours = statistics.median(variant.whole) + start
        first = first or ours
        show(
            f"{variant.name:20}{size / bare:8.0f} pairs/s bare{size / ours:8.0f} pairs/s whole"
            f"{ours / bare:7.2f} x bare (bar 1.15){100 * work * size / ours / rate / 1e9:6.0f} % of the rate"
            f"{first / ours:7.2f} x the first; start of the epoch {1000 * start:.1f} ms a step"
        )


def _flop(batch: Batch) -> float:
    """Multiplications and additions of the matrix products of a step: forward, and twice as much backward.

    The first word of a caption has no recurrent product, the features of an image need no gradient.
    """
    tokens, captions = int(batch.texts[1].sum()), len(batch.pairs)
    gates = 3 * DIM
    text = tokens * WORD_DIM * gates + (tokens - captions) * DIM * gates
    return 2.0 * (3 * text + 2 * captions * FEATURES * DIM)


def peak(device: torch.device, rows: int = 2048) -> float:
    """GFLOP/s of one large product in float32."""
    left, right, out = (torch.randn(rows, rows, device=device) for _ in range(3))
    return 2 * rows**3 / min(seconds(lambda: torch.mm(left, right, out=out)) for _ in range(3)) / 1e9


def bfloat16_units() -> str | None:
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    return next((name for name in ("amx_bf16", "avx512_bf16") if name in flags), None)


def _pairs(folder: Path, options: argparse.Namespace, zipf: bool) -> Pairs:
    """Five captions an image; words drawn alike, or by their rank as in language."""
    rng = np.random.default_rng(0)
    captions, vocabulary = 5 * options.images, options.vocabulary
    np.save(folder / "features.npy", rng.standard_normal((options.images, FEATURES), dtype=np.float32))
    array = np.load(folder / "features.npy", mmap_mode="r")
    lengths = rng.integers(8, 21, captions)
    chances = 1 / np.arange(1, vocabulary + 1) if zipf else np.ones(vocabulary)
    ids = rng.choice(vocabulary, lengths.sum(), p=chances / chances.sum())
    owners = np.arange(captions) // 5
    return Pairs(array, owners, _texts(ids, lengths, vocabulary), np.arange(captions), owners)


def _texts(ids: np.ndarray, lengths: np.ndarray, vocabulary: int) -> Texts:
    tokens = Tokens(ids, lengths.cumsum() - lengths, lengths)
    return Texts("tokens", np.arange(len(lengths)), {}, tokens, [str(word) for word in range(vocabulary)], None, None)


def _member(family, name: str, **values: object) -> Member:
    return Member(name, family.options(name)(**values))


def _scheme(
    data: Pairs, options: argparse.Namespace, device: torch.device, precision: str, loss: str, name: str
) -> Scheme:
    text, image = _member(TEXT_ENCODERS, "gru", word_dim=WORD_DIM), _member(IMAGE_ENCODERS, "linear")
    member, similarity = _member(LOSSES, loss), _member(SIMILARITIES, "cosine")
    model = build(image, text, similarity, (FEATURES,), options.vocabulary, DIM, seed=0, loss=member).train().to(device)
    train = TrainParams(batch_size=options.batch, precision=precision)
    scheme = SCHEMES.load(name)
    return scheme.scheme(Setting(model, objective(member, model), data, train, 0, device), scheme.Params())


@benchmark(
    batch=128, images=3000, vocabulary=10_000, steps=8, threads=2, rounds=3, processes=2, loss="max", scheme="plain",
    precision="float32", device="cpu",
)  # fmt: skip
def processes(options: argparse.Namespace) -> None:
    """Steps of one process and of several on the same batches, with the same threads together.

    Model and data are those of ``steps``. Both sides run in turn, --rounds times; the median step of each counts.
    With a GPU each process has one.
    """
    times: dict[int, list[float]] = {1: [], options.processes: []}
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = Path(temporary), Path(temporary) / "seconds.json"
        for number in range(options.processes):
            (folder / str(number)).mkdir()
        for _ in range(options.rounds):
            for count in times:
                training_processes.run(_share, (folder, options, out), count, options.device, "benchmark")
                times[count] += json.loads(out.read_text())
    alone = statistics.median(times[1])
    for count in times:
        median = statistics.median(times[count])
        show(
            f"{count} processes, {max(1, options.threads // count)} threads each: {1000 * median:.0f} ms a step, "
            f"{options.batch / median:.0f} pairs/s, {alone / median:.2f} x one process"
        )


def _share(folder: Path, options: argparse.Namespace, out: Path, device: torch.device) -> None:
    """A process of ``processes``; the first writes the seconds of each step to ``out``."""
    data = _pairs(folder / str(core_processes.rank()), options, zipf=False)
    scheme = _scheme(data, options, device, options.precision, options.loss, options.scheme)
    optimizer = optimizer_for(scheme.setting.model, scheme.setting.train)
    order = np.random.default_rng(0).permutation(len(data))
    batches = [order[start : start + options.batch] for start in range(0, len(order), options.batch)]
    scheme.start(1)
    scheme.model.train()
    times = [
        seconds(lambda places=places: step(scheme, optimizer, data.batch(places)))
        for places in batches[: options.steps + _WARM_UP]
    ]
    if core_processes.is_first():
        out.write_text(json.dumps(times[_WARM_UP:]))


@benchmark(
    batch=128, images=1000, vocabulary=10_000, steps=8, rates=[0.2, 0.4, 0.6], device="cpu", threads=1, processor=True
)
def schemes(options: argparse.Namespace) -> None:
    """An epoch of ``l2rm`` after its warm-up against a plain one.

    Data and model are those of ``steps``. For each of --rates that share of the pairs counts as mismatched, as with
    ``split: truth``, so that the result does not depend on a split of random numbers. The steps of both take turns;
    an epoch is its start and the median step times their number. An epoch of l2rm trains the matched pairs and as
    many mismatched ones beside them, and begins with the loss of all pairs: the last column shows the share of that.
    """
    with tempfile.TemporaryDirectory() as folder:
        pairs = _pairs(Path(folder), options, zipf=True)
        sampler = SAMPLERS.load("captions")
        sampled = sampler.batches(
            pairs.owners, pairs.lengths, options.batch, sampler.Params(), np.random.default_rng(0)
        )
        for rate in options.rates:
            data = replace(pairs, mismatched=np.random.default_rng(0).random(len(pairs)) < rate)
            bases = [_scheme(data, options, options.device, "float32", "max", "plain") for _ in range(2)]
            params = SCHEMES.options("l2rm")(split="truth")
            both = bases[0], SCHEMES.load("l2rm").scheme(bases[1].setting, params)
            plain, l2rm = epochs = [Epoch(scheme, params.warm_up, sampled) for scheme in both]
            for place in range(options.steps + 1):
                for epoch in epochs:
                    epoch.run(place)
            show(
                f"{100 * rate:3.0f} % mismatched: a plain epoch {plain.seconds:.1f} s, of l2rm {l2rm.seconds:.1f} s: "
                f"{l2rm.seconds / plain.seconds:.2f} x (bar 1.5); steps {len(l2rm.batches)} of {len(plain.batches)}, "
                f"each {l2rm.median / plain.median:.2f} x, and {l2rm.start / plain.seconds:.2f} x before the first"
            )


class Epoch:
    """The epoch ``number`` of a scheme over the sampler's batches."""

    def __init__(self, scheme: Scheme, number: int, sampled: list[np.ndarray]) -> None:
        self.scheme, self.optimizer = scheme, optimizer_for(scheme.setting.model, scheme.setting.train)
        self.start = seconds(lambda: scheme.start(number))
        scheme.model.train()
        self.batches = scheme.batches(number, sampled)
        self.steps: list[float] = []

    def run(self, place: int) -> None:
        data, places = self.scheme.setting.pairs, self.batches[place % len(self.batches)]
        self.steps.append(seconds(lambda: step(self.scheme, self.optimizer, data.batch(places))))

    @property
    def median(self) -> float:
        return statistics.median(self.steps[1:])  # the first is not counted

    @property
    def seconds(self) -> float:
        return self.start + len(self.batches) * self.median


@benchmark(batch=128, regions=36, threads=2, rounds=7, vocabulary=8000, device="cpu", processor=False, only="")
def pooling(options: argparse.Namespace) -> None:
    """Training steps and memory of poolings, in turn in one process.

    A step is everything that an epoch does for a batch: features and words to vectors, ``max``, gradients and Adam.
    Pooled are 36 regions of 2048 numbers and captions of 8 to 20 words, both to 1024 dimensions; a fifth of either is
    dropped. --only NAME: one pooling, and the memory of the process.
    """
    rng = np.random.default_rng(0)
    places = np.arange(options.batch)
    lengths = rng.integers(8, 21, options.batch)
    texts = _texts(rng.integers(4, options.vocabulary, lengths.sum()), lengths, options.vocabulary)
    array = rng.standard_normal((options.batch, options.regions, FEATURES)).astype(np.float32)
    data = Pairs(array, places, texts, places, places)
    names = [options.only] if options.only else list(POOLINGS)
    works = {name: _pooled_step(data, name, options) for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds + 1):  # the first is not counted
        for name, work in works.items():
            times[name].append(seconds(work))
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, median in medians.items():
        ratio = f"{peak_mib():.0f} MiB at most" if options.only else f"{median / medians['mean']:.2f} of mean"
        show(f"{name}: {median:.3f} s a step, {ratio}")
    for name in [] if options.only else POOLINGS:
        subprocess.run([sys.executable, "-m", __spec__.name, *sys.argv[1:], "--only", name], check=True)


def _pooled_step(data: Pairs, name: str, options: argparse.Namespace) -> partial:
    image = _member(IMAGE_ENCODERS, "pooled", pooling=name)
    text = _member(TEXT_ENCODERS, "gru", pooling=name, bidirectional=True, drop_words=0.2)
    shape, loss, similarity = data.array.shape[1:], _member(LOSSES, "max"), _member(SIMILARITIES, "cosine")
    model = build(image, text, similarity, shape, options.vocabulary, DIM, seed=0).train().to(options.device)
    scheme = Scheme(Setting(model, objective(loss, model), data, TrainParams(), 0, options.device))
    return partial(step, scheme, optimizer_for(model, TrainParams()), data.batch(np.arange(options.batch)))


if __name__ == "__main__":
    run(__name__)
