"""``python -m benchmarks.train NAME``: steps of training, each measured in turn with what it is compared with."""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

import vse_pipe as vp
from benchmarks.measure import benchmark, run, seconds, show
from tests.train.some import some_run
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import processes as core_processes
from vse_pipe.core.text import Tokens
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SAMPLERS, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train import processes as training_processes
from vse_pipe.train.data import Batch, Pairs
from vse_pipe.train.model import build
from vse_pipe.train.optimise import optimizer_for, step
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import Scored

FEATURES, WORD_DIM, DIM = 2048, 300, 1024
_WARM_UP = 2


@benchmark(
    batch=128, images=3000, vocabulary=10_000, steps=10, threads=2, loss="max", scheme="plain",
    device="cpu", processor=False, zipf=False, only=[],
)  # fmt: skip
def steps(options: argparse.Namespace) -> None:
    """Optimisation steps of the pipeline against bare ones, and the share of the machine used.

    Captions of 8 to 20 words, GRU 1024. For every batch, in turn: the bare step (forward, backward and Adam on a batch
    made before, its pairs' summed cosine for a loss) and the pipeline's (sampling, gather, padding, loss, clipping and
    all), in float32 and in bfloat16. Medians count. --zipf: frequent and rare words; --only float32 and so on.
    """
    units = bfloat16_units()
    show(f"{options.device}; bfloat16 units of the CPU: {units or 'none, so that bfloat16 is slower than float32'}")
    threads = f"{options.threads} threads, {'processor time' if options.processor else 'wall clock'}"
    show(f"batch {options.batch}, loss {options.loss}, scheme {options.scheme}, {threads}, medians")
    with tempfile.TemporaryDirectory() as folder:
        data = _pairs(Path(folder), options, options.zipf)
        sampler = SAMPLERS.load("captions")
        sample = partial(sampler.batches, data.owners, options.batch, sampler.Params())
        sampling = seconds(lambda: sample(np.random.default_rng(0)))
        batches = sample(np.random.default_rng(0))
        variants = [
            Variant(precision, data, options)
            for precision in ("float32", "bfloat16")
            if not options.only or precision in options.only
        ]
        for variant in variants:  # warm
            variant.run(batches[0])
            variant.bare.clear(), variant.whole.clear()
        rates = []
        for batch in batches[: options.steps]:
            rates.append(peak(options.device))
            for variant in variants:
                variant.run(batch)
        _report(variants, batches, sampling, statistics.median(rates))


class Variant:
    """A model of its own in one precision; seconds of its bare and whole steps."""

    def __init__(self, precision: str, data: Pairs, options: argparse.Namespace) -> None:
        self.name = precision
        self.scheme = _scheme(data, options, options.device, precision, options.loss, options.scheme)
        self.optimizer = optimizer_for(self.scheme.setting.model, self.scheme.setting.train)
        self.bare: list[float] = []
        self.whole: list[float] = []
        self.start = seconds(lambda: self.scheme.start(1))

    def run(self, places: np.ndarray) -> None:
        """Both kinds of step on the same pairs; the order changes from call to call."""
        data = self.scheme.setting.pairs
        batch = data.batch(places)
        whole = lambda: step(self.scheme, self.optimizer, data.batch(places))  # noqa: E731
        works = [(self.bare, lambda: self._bare_step(batch)), (self.whole, whole)]
        for times, work in works if len(self.bare) % 2 else reversed(works):
            times.append(seconds(work))

    def _bare_step(self, batch: Batch) -> None:
        setting = self.scheme.setting
        self.optimizer.zero_grad(set_to_none=True)
        images, texts = setting.model.encode(batch, setting.device, setting.train.precision)
        (-(images * texts).sum()).backward()
        self.optimizer.step()


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
    tokens, words = Tokens(ids, lengths.cumsum() - lengths, lengths), [str(word) for word in range(vocabulary)]
    texts = Texts("tokens", np.arange(captions), {}, tokens, words, None, None)
    return Pairs(array, owners, texts, np.arange(captions), owners)


def _member(family, name: str, **values: object) -> Member:
    return Member(name, family.options(name)(**values))


def _scheme(data: Pairs, options: argparse.Namespace, device, precision: str, loss: str, name: str) -> Scheme:
    text, image = _member(TEXT_ENCODERS, "gru", word_dim=WORD_DIM), _member(IMAGE_ENCODERS, "linear")
    member, similarity = _member(LOSSES, loss), _member(SIMILARITIES, "cosine")
    model = build(image, text, similarity, (FEATURES,), options.vocabulary, DIM, seed=0, loss=member).train().to(device)
    train = TrainParams(batch_size=options.batch, precision=precision)
    setting = Setting(some_run(member, train, name, seed=0), model, data, device, lambda seed: model)
    return SCHEMES.load(name).scheme(setting)


@benchmark(
    batch=128, images=3000, vocabulary=10_000, steps=8, threads=2, rounds=3, processes=2, loss="max", scheme="plain",
    precision="float32", device="cpu",
)  # fmt: skip
def processes(options: argparse.Namespace) -> None:
    """Steps of one process and of several on the same batches, with the same threads together.

    Model and data are those of ``steps``; medians of --rounds in turn. With a GPU each process has one.
    """
    times: dict[int, list[float]] = {1: [], options.processes: []}
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = Path(temporary), Path(temporary) / "seconds.json"
        for number in range(options.processes):
            (folder / str(number)).mkdir()
        for _ in range(options.rounds):
            for count in times:
                training_processes.run(partial(_share, folder, options, out), count, options.device)
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
    work = lambda places: seconds(lambda: step(scheme, optimizer, data.batch(places)))  # noqa: E731
    times = [work(places) for places in batches[: options.steps + _WARM_UP]]
    if core_processes.is_first():
        out.write_text(json.dumps(times[_WARM_UP:]))


@benchmark(batch=128, dim=1024, rounds=200, threads=2, only=["HAL", "MAX"], device="cpu", processor=False)
def door(options: argparse.Namespace) -> None:
    """Forward and backward of losses of ``vp.losses`` against the loss as a stage calls it.

    In turn on the same vectors, which both divide by their lengths, then on the same scores; medians.
    """
    torch.manual_seed(0)
    sides = [torch.randn(options.batch, options.dim, device=options.device, requires_grad=True) for _ in range(2)]
    title = f"batch {options.batch}, d={options.dim}, {options.device}, {options.threads} threads"
    show(f"{title}, median of {options.rounds}")
    for name in options.only:
        for inputs, works in _losses(name, *sides).items():
            times: list[list[float]] = [[], []]
            for _ in range(options.rounds):
                for values, work in zip(times, works, strict=True):
                    values.append(seconds(partial(_backward, work)))
            base, ours = (statistics.median(values) for values in times)
            show(f"{name}, {inputs:10}{1000 * base:8.3f} ms stage{1000 * ours:8.3f} ms vp{ours / base:8.2f} x stage")


def _losses(name: str, images: torch.Tensor, texts: torch.Tensor) -> dict[str, list[Callable[[], torch.Tensor]]]:
    """By input, the loss as a stage calls it and that of ``vp.losses``."""
    module, member = getattr(vp.losses, name)(), _member(LOSSES, name.lower())
    loss = partial(LOSSES.load(member.name).loss, params=member.params)
    scores = (normalize(images.detach(), dim=1) @ normalize(texts.detach(), dim=1).T).requires_grad_()

    def stage() -> torch.Tensor:
        unit = normalize(images, dim=1), normalize(texts, dim=1)
        return loss(Scored.from_scores(unit[0] @ unit[1].T, images=unit[0], texts=unit[1])).total()

    return {
        "vectors": [stage, lambda: module(images, texts)],
        "scores": [lambda: loss(Scored.from_scores(scores)).total(), lambda: module.from_scores(scores)],
    }


def _backward(work: Callable[[], torch.Tensor]) -> None:
    work().backward()


if __name__ == "__main__":
    run(__name__)
