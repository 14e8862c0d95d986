"""``python -m benchmarks.evaluate NAME``: seconds of rankings of made-up vectors."""

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch

import vse_pipe as vp
from benchmarks.measure import benchmark, run, seconds, show
from vse_pipe.evaluate.measure import results
from vse_pipe.evaluate.rank import rank_vectors, read, task_of_vectors
from vse_pipe.evaluate.task import Task
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria as ranking_trial
from vse_pipe.ranking.criteria import parse, trials
from vse_pipe.ranking.split import BankSource, Split

OPEN = {"rgm": INFERENCES.options("rgm")(lam=2.0)}
_BANK = BankSource("test")
_product = lambda left, right: left @ right.T  # noqa: E731


@benchmark(images=5000, captions=25_000, dim=1024, rounds=3, threads=2, only=[], device="cpu")
def criteria(options: argparse.Namespace) -> None:
    """Each criterion against plain products and top-10 selections.

    Seconds and ratios of the same run: the baseline and each criterion take turns and the median counts. --only: these
    criteria.
    """
    split = _split(options)
    names = [name for name in INFERENCES.names() if not INFERENCES.traits(name).matches and name != "nns"]
    names = options.only or ["nns", *names, "gm", "rgm", *[f"{name}+rgm" for name in names if name != "qb_norm"]]
    _evaluate(split, "nns"), _evaluate(split, "gm")  # compiled and warm
    times: dict[str, list[float]] = {name: [] for name in ["plain", "nns", *names]}
    for _ in range(options.rounds):
        for name in times:
            times[name].append(seconds(partial(_evaluate, split, name)))
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
    of_split = partial(trials, [split], _BANK, _product, EvaluateParams().memory)
    choose = partial(ranking_trial.choose_parameters, parse("rgm", {}))
    grid = seconds(lambda: [choose(trial, False) for trial in of_split().values()])
    show(f"{'lambda, 37 x 3 x 2':24}{grid:8.2f} s{grid / medians['nns']:24.2f} x nns")


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


def _evaluate(split: Split, name: str) -> None:
    """Ranking, metrics and tables, the ranked queries a bank; ``plain``: both products and ten best a row."""
    if name == "plain":
        (split.images @ split.captions.T).topk(10, dim=1)
        (split.captions @ split.images.T).topk(10, dim=1)
        return
    task = Task(split, _BANK, None, _BANK, _product, {}, EvaluateParams(resamples=0))
    for _ in results(task, [parse(name, OPEN)]):
        pass


@benchmark(images=5000, captions=25_000, dim=1024, rounds=3, threads=2, device="cpu", processor=False)
def door(options: argparse.Namespace) -> None:
    """``vp.rank`` against the command's ranking of the same vectors, with nns.

    In turn, medians: the command from .npy files, its ranking alone (``results``), and ``vp.rank``, which also checks
    the vectors and divides them by their lengths. Then ``vp.rank`` of a fifth of the images and captions.
    """
    split, params = _split(options), EvaluateParams(resamples=0)
    sides = (split.images, split.captions, torch.from_numpy(split.caption_images))
    if options.device.type == "cpu":
        sides = tuple(side.numpy() for side in sides)
    small = [side[: len(side) // 5] for side in sides]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.npy" for name in ("images", "captions", "owners")]
        for path, array in zip(paths, (split.images, split.captions, split.caption_images), strict=True):
            np.save(path, torch.as_tensor(array).cpu().numpy())
        files = partial(read, params, "cosine", paths[0], paths[1], caption_images=paths[2])
        task, criteria = task_of_vectors(files(), params, options.device), [parse("nns", {})]
        works = {
            "command": lambda: rank_vectors(files(), ["nns"], params, {}, str(options.device)),
            "ranking": lambda: list(results(task, criteria)),
            "vp.rank": lambda: vp.rank(*sides),
        }
        vp.rank(*small)  # compiled and warm
        times: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(options.rounds):
            for name, work in works.items():
                times[name].append(seconds(work))
    title = f"{options.images} x {options.captions}, d={options.dim}, {options.device}, {options.threads} threads"
    show(f"{title}, median of {options.rounds}")
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        show(f"{name:24}{value:8.2f} s{value / medians['command']:8.2f} x command")
    value = statistics.median(seconds(lambda: vp.rank(*small)) for _ in range(5 * options.rounds))
    show(f"{f'vp.rank, {len(small[0])} x {len(small[1])}':24}{value:8.3f} s (bar 0.2 s)")


if __name__ == "__main__":
    run(__name__)
