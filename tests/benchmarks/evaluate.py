"""``python -m tests.benchmarks.evaluate``: each criterion against plain products and top-10 selections.

Prints seconds and ratios of the same run; the baseline and each criterion take turns and the median counts, because
machines are shared. Options make it smaller: ``--images 1000 --captions 5000 --dim 256 --rounds 3 --only csls``; ``--device cuda`` measures there.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from tests.benchmarks import devices
from vse_pipe.evaluate.measure import Inputs, measure
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria
from vse_pipe.ranking import trial as ranking_trial
from vse_pipe.ranking.bank import BankSource
from vse_pipe.ranking.criteria import Criterion
from vse_pipe.ranking.matching import Allowance
from vse_pipe.ranking.split import Split
from vse_pipe.ranking.trial import trials

OPEN = {"rgm": INFERENCES.options("rgm")(lam=2.0)}


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left @ right.T


def embeddings(images: int, captions: int, dim: int, device: torch.device = devices.CPU) -> Split:
    """Captions near their images, the same number for each; a common direction makes hubs."""
    rng = np.random.default_rng(0)
    each = captions // images
    vectors = rng.standard_normal((images, dim), dtype=np.float32)
    texts = vectors.repeat(each, axis=0) + 4 * rng.standard_normal((images * each, dim), dtype=np.float32)
    common = rng.standard_normal(dim, dtype=np.float32)
    sides = [torch.nn.functional.normalize(torch.from_numpy(side + common), dim=1) for side in (vectors, texts)]
    ids = np.arange(images)
    return Split(ids, np.arange(images * each), ids.repeat(each), *(side.to(device) for side in sides))


def plain(split: Split) -> None:
    """Both products whole, and the ten best of each row."""
    for left, right in ((split.images, split.captions), (split.captions, split.images)):
        (left @ right.T).topk(10, dim=1)


def evaluation(split: Split, name: str) -> Callable[[], None]:
    """Ranking, metrics and tables, with given parameters and the ranked queries for a bank."""
    inputs = Inputs(split, BankSource("test"), None, BankSource("test"), product, {})
    criterion = criteria.parse(name, OPEN)

    def once() -> None:
        for _ in measure(inputs, [criterion], EvaluateParams(resamples=0)):
            pass

    return once


def tuned(split: Split, criterion: Criterion) -> Callable[[], None]:
    """Lambda by grid, both directions."""

    def once() -> None:
        for trial in trials([split], BankSource("test"), product, EvaluateParams().memory).values():
            ranking_trial.tuned(criterion, trial, False)

    return once


def literal(split: Split, k: int = 10, lam: float = 2.0) -> float:
    """Seconds of Algorithm 1 as printed, image to text: sort all pairs, walk down the list."""
    scores = product(split.images, split.captions).cpu().numpy()
    started = time.monotonic()
    rows, columns = scores.shape
    taken, served, matched = np.zeros(rows, int), np.zeros(columns, int), 0
    for flat in np.argsort(-scores, axis=None, kind="stable"):
        row, column = divmod(int(flat), columns)
        if taken[row] < k and served[column] < round(lam * k):
            taken[row] += 1
            served[column] += 1
            matched += 1
            if matched == min(rows, columns) * k:
                break
    return time.monotonic() - started


def matching(split: Split, k: int = 10, lam: float = 2.0) -> tuple[float, float]:
    """Seconds of ours on the same scores: with the selection of top lists, and without."""
    from vse_pipe.ranking import matching as module

    scores = trials([split], BankSource("test"), product, EvaluateParams().memory)["image_to_text"][0].scores
    for _ in scores.blocks():
        pass
    devices.wait()
    started = time.monotonic()
    candidates = module._first_candidates(scores)
    listed = time.monotonic()
    setting = Allowance(k, lam)
    module._Assignment(scores, candidates, k, setting.quota(*scores.shape, "literal")).solve()
    return time.monotonic() - started, time.monotonic() - listed


def seconds(work: Callable[[], None]) -> float:
    return devices.seconds(work, time.monotonic)


def show(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in [("images", 5000), ("captions", 25000), ("dim", 1024), ("rounds", 3), ("threads", 2)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    devices.add(parser)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--literal", action="store_true", help="also time Algorithm 1 as printed")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    split = embeddings(options.images, options.captions, options.dim, options.device)
    names = [name for name in INFERENCES.names() if not INFERENCES.traits(name).matches and name != "nns"]
    names = options.only or ["nns", *names, "gm", "rgm", *[f"{name}+rgm" for name in names if name != "qb_norm"]]
    evaluation(split, "nns")(), evaluation(split, "gm")()  # compiled and warm
    times: dict[str, list[float]] = {name: [] for name in ["plain", "nns", *names]}
    for _ in range(options.rounds):
        for name in times:
            times[name].append(
                seconds(lambda name=name: plain(split) if name == "plain" else evaluation(split, name)())
            )
    middle = {name: statistics.median(values) for name, values in times.items()}
    show(
        f"{options.images} images x {options.captions} captions, d={options.dim}, {options.device}, {options.threads} threads, median of {options.rounds}"
    )
    for name, value in middle.items():
        under = middle.get(name.rpartition("+")[0] or "nns", middle["nns"])
        show(
            f"{name:24}{value:8.2f} s{value / middle['plain']:8.2f} x plain{value / middle['nns']:8.2f} x nns{value / under:8.2f} x without matching"
        )
    grid = seconds(tuned(split, criteria.parse("rgm", {})))
    show(f"{'lambda, 37 x 3 x 2':24}{grid:8.2f} s{grid / middle['nns']:24.2f} x nns")
    with_lists, alone = matching(split)
    show(f"{'matching, K=10':24}{with_lists:8.2f} s with top lists, {1000 * alone:.1f} ms without")
    if options.literal:
        printed = literal(split)
        show(
            f"{'Algorithm 1 as printed':24}{printed:8.2f} s: {printed / with_lists:.0f} x with lists, {printed / alone:.0f} x without"
        )


if __name__ == "__main__":
    main()
