"""``python -m benchmarks.kernels NAME``: similarities of fragments against plain programs."""

import argparse
from functools import partial
from pathlib import Path

import torch
from torch.nn.functional import normalize
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.measure import benchmark, peak_mib, run, seconds, show
from benchmarks.train import bfloat16_units, peak
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.scored import Scored

# Seconds that are allowed.
BARS = {"scan_t2i": 1.0, "scan_i2t": 1.5, "saf": 2.0, "sgr": 3.0}
# The last two arguments of each are the matrices.
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addmm_", "baddbmm_"}


@benchmark(
    batch=128, regions=36, dim=1024, threads=2, rounds=3, loss=["sum", "max"], only=list(BARS), device="cpu",
    processor=False,
)  # fmt: skip
def fragments(options: argparse.Namespace) -> None:
    """Scores of a batch by each fragment similarity, and the way back.

    Images of 36 regions, captions of 8 to 20 words, training mode. Seconds of the scores alone and with the gradient
    of a loss in regions, words and weights: ``sum`` passes one to almost every cell, ``max`` to few. The work is that
    of all matrix products that were made. The best of --rounds counts.
    """
    units = bfloat16_units()
    idle = f"{units} lies idle" if units else "no bfloat16 units"
    show(f"{options.threads} threads, {options.device}, float32; {idle}")
    show("GB: the whole process, PyTorch itself among it, without what a GPU holds")
    for name in options.only:
        batch = FragmentBatch(name, options)
        scoring = min(seconds(batch.validate) for _ in range(options.rounds))
        for loss in options.loss:
            work = partial(batch.train, LOSSES.load(loss))
            with Products() as products:
                work()
            Path("/proc/self/clear_refs").write_text("5")  # the largest memory is counted anew
            times, rates = [], []
            for _ in range(options.rounds):
                rates.append(peak(options.device))
                times.append(seconds(work))
            gflop, best = products.flop / 1e9, min(times)
            show(
                f"{name:9}{loss:8}{scoring:7.2f} s scores{best:7.2f} s with the gradient (bar {BARS[name]:.1f})"
                f"{peak_mib() * 2**20 / 1e9:6.2f} GB{gflop:7.0f} GFLOP{gflop / best:6.0f} GFLOP/s"
                f"{100 * gflop / best / max(rates):5.0f} % of {max(rates):.0f}"
            )


class Products(TorchDispatchMode):
    """Multiplications and additions of the matrix products made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.flop = 0.0

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if operation.overloadpacket.__name__ in _PRODUCTS:
            left, right = arguments[-2:]
            self.flop += 2.0 * left.numel() * right.shape[-1]
        return operation(*arguments, **(options or {}))


class FragmentBatch:
    """One similarity on a batch of unit vectors, the same for every similarity."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.member = SIMILARITIES.load(name)
        self.params, self.network = self.member.Params(), ()
        rng = torch.Generator().manual_seed(0)
        lengths = torch.randint(8, 21, (options.batch,), generator=rng)
        images = torch.randn(options.batch, options.regions, options.dim, generator=rng)
        words = torch.randn(int(lengths.sum()), options.dim, generator=rng)
        images, words = (normalize(side, dim=-1).to(options.device).requires_grad_() for side in (images, words))
        self.sides = images, Words(words, lengths)
        if hasattr(self.member, "network"):
            network = self.member.network(self.params, options.dim, options.regions, torch.Generator().manual_seed(0))
            self.network = (network.train().to(options.device),)

    def validate(self) -> None:
        """Nothing is kept for a gradient."""
        with torch.no_grad():
            self.member.score(*self.sides, self.params, *self.network)

    def train(self, loss) -> None:
        scores = self.member.score(*self.sides, self.params, *self.network)
        loss.loss(Scored.from_scores(scores), loss.Params()).total().backward()


if __name__ == "__main__":
    run(__name__)
