"""``python -m tests.benchmarks.evaluate NAME``: seconds of rankings of made-up vectors."""

import argparse
import statistics

import numpy as np
import torch

from tests.benchmarks.measure import benchmark, run, seconds, show
from vse_pipe.evaluate.measure import Inputs, measure
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria as ranking_trial
from vse_pipe.ranking.criteria import parse, trials
from vse_pipe.ranking.split import BankSource, Split

OPEN = {"rgm": INFERENCES.options("rgm")(lam=2.0)}
_MEMORY = EvaluateParams().memory
_BANK = BankSource("test")


@benchmark(images=5000, captions=25_000, dim=1024, rounds=3, threads=2, only=[], device="cpu")
def criteria(options: argparse.Namespace) -> None:
    """Each criterion against plain products and top-10 selections.

    Prints seconds and ratios of the same run; the baseline and each criterion take turns and the median counts, because
    machines are shared. --only: these criteria.
    """
    split = _split(options)
    names = [name for name in INFERENCES.names() if not INFERENCES.traits(name).matches and name != "nns"]
    names = options.only or ["nns", *names, "gm", "rgm", *[f"{name}+rgm" for name in names if name != "qb_norm"]]
    _evaluate(split, "nns"), _evaluate(split, "gm")  # compiled and warm
    times: dict[str, list[float]] = {name: [] for name in ["plain", "nns", *names]}
    for _ in range(options.rounds):
        for name in times:
            work = _products if name == "plain" else lambda split, name=name: _evaluate(split, name)
            times[name].append(seconds(lambda work=work: work(split)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    show(
        f"{options.images} images x {options.captions} captions, d={options.dim}, {options.device}, "
        f"{options.threads} threads, median of {options.rounds}"
    )
    for name, value in medians.items():
        base = medians.get(name.rpartition("+")[0] or "nns", medians["nns"])
        show(
            f"{name:24}{value:8.2f} s{value / medians['plain']:8.2f} x plain{value / medians['nns']:8.2f} x nns"
            f"{value / base:8.2f} x without matching"
        )
    grid = seconds(lambda: _best_lambdas(split))
    show(f"{'lambda, 37 x 3 x 2':24}{grid:8.2f} s{grid / medians['nns']:24.2f} x nns")


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left @ right.T


def _split(options: argparse.Namespace) -> Split:
    """Captions near their images, the same number for each; a common direction makes hubs."""
    rng = np.random.default_rng(0)
    images, dim, per_image = options.images, options.dim, options.captions // options.images
    vectors = rng.standard_normal((images, dim), dtype=np.float32)
    texts = vectors.repeat(per_image, axis=0) + 4 * rng.standard_normal((images * per_image, dim), dtype=np.float32)
    common = rng.standard_normal(dim, dtype=np.float32)
    sides = [torch.nn.functional.normalize(torch.from_numpy(side + common), dim=1) for side in (vectors, texts)]
    ids = np.arange(images)
    return Split(ids, np.arange(len(texts)), ids.repeat(per_image), *(side.to(options.device) for side in sides))


def _products(split: Split) -> None:
    """Both products whole, and the ten best of each row."""
    for left, right in ((split.images, split.captions), (split.captions, split.images)):
        (left @ right.T).topk(10, dim=1)


def _evaluate(split: Split, name: str) -> None:
    """Ranking, metrics and tables, with given parameters and the ranked queries for a bank."""
    inputs = Inputs(split, _BANK, None, _BANK, _product, {})
    for _ in measure(inputs, [parse(name, OPEN)], EvaluateParams(resamples=0)):
        pass


def _best_lambdas(split: Split) -> None:
    for trial in trials([split], _BANK, _product, _MEMORY).values():
        ranking_trial.choose_parameters(parse("rgm", {}), trial, False)


if __name__ == "__main__":
    run(__name__)
