"""``python -m tests.benchmarks.order``: order violations by the compiled loop and by PyTorch's differences, in turn.

Scores of a batch and their gradient under ``--loss``, and scores of the 1,000 images and 5,000 captions of a validation. Medians
of ``--rounds``, milliseconds, and the median of the ratios.
"""

import argparse
import statistics
from collections.abc import Callable
from unittest import mock

import torch

from tests.benchmarks.train import seconds, show
from vse_pipe.project.registry import LOSSES
from vse_pipe.ranking.similarities import order
from vse_pipe.ranking.similarities.options import OrderOptions as Params
from vse_pipe.train.batch import Scored


def differences(images: torch.Tensor, texts: torch.Tensor, params: Params) -> torch.Tensor:
    """``order.score`` without the compiled loop."""
    with mock.patch.object(order._Squared, "apply", order._squared):
        return order.score(images, texts, params)


def step(scores: Callable, images: torch.Tensor, texts: torch.Tensor, loss: str) -> None:
    member = LOSSES.load(loss)
    member.loss(Scored.of(scores(images, texts, Params())), member.Params()).total().backward()


def validation(scores: Callable, images: torch.Tensor, texts: torch.Tensor) -> None:
    with torch.no_grad():
        scores(images, texts, Params())


def in_turn(name: str, work: Callable[[Callable], None], rounds: int) -> None:
    both = [(seconds(lambda: work(order.score)), seconds(lambda: work(differences))) for _ in range(rounds + 1)][1:]
    ours, theirs = (1e3 * statistics.median(one) for one in zip(*both, strict=True))
    ratio = statistics.median(b / a for a, b in both)
    show(f"{name:34}{ours:9.1f} ms compiled{theirs:9.1f} ms differences{ratio:7.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loss", nargs="*", default=["sum", "max"])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rng = torch.Generator().manual_seed(0)
    for dim in (256, 1024):
        images, texts = (torch.rand(128, dim, generator=rng, requires_grad=True) for _ in range(2))
        for loss in options.loss:
            name = f"step of 128, {dim} numbers, {loss}"
            in_turn(name, lambda way, a=images, b=texts, loss=loss: step(way, a, b, loss), options.rounds)
        images, texts = torch.rand(1000, dim, generator=rng), torch.rand(5000, dim, generator=rng)
        in_turn(f"validation, {dim} numbers", lambda way, a=images, b=texts: validation(way, a, b), options.rounds)


if __name__ == "__main__":
    main()
