"""``python -m tests.benchmarks.fragments``: scores of a batch by each fragment similarity, and the way back.

128 images of 36 regions against 128 captions of 8 to 20 words, vectors of 1024 numbers, training mode. Seconds of the scores
alone and with the gradient of a loss in regions, words and weights; ``sum`` passes a gradient to almost every cell, ``max`` to
few. The work counted is that of all matrix products that were really made. The best of ``--rounds`` counts, machines are shared.
``--loop`` times a loop over captions, as in the authors' programs, in turn with ours; ``--device cuda`` measures there.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.benchmarks import devices, loops
from tests.benchmarks.train import Clock, bfloat16_units, peak, seconds, show
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.batch import Scored

BARS = {"scan_t2i": 1.0, "scan_i2t": 1.5, "saf": 2.0, "sgr": 3.0}
# The last two arguments of each are the matrices.
MATRIX = {"mm", "bmm", "addmm", "baddbmm", "addmm_", "baddbmm_"}


class Work(TorchDispatchMode):
    """Multiplications and additions of the matrix products made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.flop = 0.0

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if operation.overloadpacket.__name__ in MATRIX:
            left, right = arguments[-2:]
            self.flop += 2.0 * left.numel() * right.shape[-1]
        return operation(*arguments, **(options or {}))


def inputs(options: argparse.Namespace) -> tuple[torch.Tensor, Words]:
    """Unit vectors, alike for every similarity."""
    rng = torch.Generator().manual_seed(0)
    lengths = torch.randint(8, 21, (options.batch,), generator=rng)
    images = torch.randn(options.batch, options.regions, options.dim, generator=rng)
    words = torch.randn(int(lengths.sum()), options.dim, generator=rng)
    images, words = (torch.nn.functional.normalize(side, dim=-1).to(options.device) for side in (images, words))
    return images.requires_grad_(), Words(words.requires_grad_(), lengths)


def memory(start: bool = False) -> float:
    """GB that this process held at most since ``start``; Linux alone."""
    if start:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e9


class Batch:
    """One similarity on one batch."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.member = name, SIMILARITIES.load(name)
        self.params = self.member.Params()
        self.images, self.words = inputs(options)
        self.extra = ()
        if hasattr(self.member, "network"):
            rng = torch.Generator().manual_seed(0)
            self.extra = (
                self.member.network(self.params, options.dim, options.regions, rng).train().to(options.device),
            )

    def forward(self) -> torch.Tensor:
        return self.member.score(self.images, self.words, self.params, *self.extra)

    def loop(self) -> torch.Tensor:
        return loops.score(self.name, self.images, self.words, self.params, *self.extra)

    def score(self) -> None:
        """As in validation: nothing is kept."""
        with torch.no_grad():
            self.forward()

    def train(self, loss, forward=None) -> None:
        loss.loss(Scored.of((forward or self.forward)()), loss.Params()).total().backward()


def measure(name: str, options: argparse.Namespace) -> None:
    batch = Batch(name, options)
    forward = min(seconds(batch.score) for _ in range(options.rounds))
    for chosen in options.loss:
        work = partial(batch.train, LOSSES.load(chosen))
        with Work() as counted:
            work()
        memory(start=True)
        times, rates, theirs = [], [], []
        for _ in range(options.rounds):
            rates.append(peak(device=options.device))
            times.append(seconds(work))
            if options.loop:
                theirs.append(seconds(partial(work, batch.loop)))
        gflop, rate = counted.flop / 1e9, max(rates)
        show(
            f"{name:9}{chosen:8}{forward:7.2f} s scores{min(times):7.2f} s with the gradient (bar {BARS[name]:.1f})"
            f"{memory():6.2f} GB{gflop:7.0f} GFLOP{gflop / min(times):6.0f} GFLOP/s"
            f"{100 * gflop / min(times) / rate:5.0f} % of {rate:.0f}"
            + (f"{min(theirs):7.2f} s a caption at a time, {min(theirs) / min(times):.1f}x" if theirs else "")
        )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {"batch": 128, "regions": 36, "dim": 1024, "threads": 2, "rounds": 3}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    losses = [name for name in LOSSES.names() if not LOSSES.traits(name).learns]
    parser.add_argument("--loss", nargs="*", default=["sum", "max"], choices=losses)
    parser.add_argument("--only", nargs="*", default=list(BARS), choices=list(BARS))
    devices.add(parser)
    parser.add_argument("--loop", action="store_true", help="beside a loop over captions")
    parser.add_argument("--processor", action="store_true", help="count processor time; with --threads 1")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    if options.processor:
        Clock.read = staticmethod(time.process_time)
    units = bfloat16_units()
    show(
        f"{options.threads} threads, {options.device}, float32; "
        + (f"{units} lies idle" if units else "no bfloat16 units")
    )
    show("GB: the whole process, PyTorch itself among it, without what a GPU holds")
    for name in options.only:
        measure(name, options)


if __name__ == "__main__":
    main()
