"""``python -m tests.benchmarks.evaluate NAME``: seconds of rankings, of made-up vectors and of runs."""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import torch

from tests.benchmarks.measure import benchmark, run, seconds, show
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.evaluate.measure import Inputs, measure
from vse_pipe.localize.ranks import BoxSide, Ranks, joined, scenes
from vse_pipe.localize.stage import localised_figures
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams, LocalizeParams
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria as ranking_trial
from vse_pipe.ranking import evaluation, matching
from vse_pipe.ranking.bank import BankSource, Split
from vse_pipe.ranking.cascade import ScoredPairs, cascaded
from vse_pipe.ranking.criteria import Trial, parse, trials
from vse_pipe.ranking.embedded import Embedded

OPEN = {"rgm": INFERENCES.options("rgm")(lam=2.0)}
_MEMORY = EvaluateParams().memory
_BANK = BankSource("test")


@benchmark(images=5000, captions=25_000, dim=1024, rounds=3, threads=2, only=[], literal=False, device="cpu")
def criteria(options: argparse.Namespace) -> None:
    """Each criterion against plain products and top-10 selections.

    Prints seconds and ratios of the same run; the baseline and each criterion take turns and the median counts, because
    machines are shared. --only: these criteria; --literal: also Algorithm 1 as printed.
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
    with_lists, alone = _matching_seconds(split)
    show(f"{'matching, K=10':24}{with_lists:8.2f} s with top lists, {1000 * alone:.1f} ms without")
    if options.literal:
        scores = _product(split.images, split.captions).cpu().numpy()
        printed = seconds(lambda: _literal(scores))
        times_slower = f"{printed / with_lists:.0f} x with lists, {printed / alone:.0f} x without"
        show(f"{'Algorithm 1 as printed':24}{printed:8.2f} s: {times_slower}")


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


def _matching_seconds(split: Split, k: int = 10, lam: float = 2.0) -> tuple[float, float]:
    """Ours, image to text: with the selection of top lists, and without."""
    scores = trials([split], _BANK, _product, _MEMORY)["image_to_text"][0].scores
    for _ in scores.blocks():
        pass
    candidates = []
    listing = seconds(lambda: candidates.append(matching._first_candidates(scores)))
    quota = matching.Allowance(k, lam).quota(*scores.shape, "literal")
    solving = seconds(lambda: matching._Assignment(scores, candidates[0], k, quota).solve())
    return listing + solving, solving


def _literal(scores: np.ndarray, k: int = 10, lam: float = 2.0) -> None:
    """Algorithm 1 as printed: sort all pairs, walk down the list."""
    rows, columns = scores.shape
    row_counts, column_counts, matched = np.zeros(rows, int), np.zeros(columns, int), 0
    for flat in np.argsort(-scores, axis=None, kind="stable"):
        row, column = divmod(int(flat), columns)
        if row_counts[row] < k and column_counts[column] < round(lam * k):
            row_counts[row] += 1
            column_counts[column] += 1
            matched += 1
            if matched == min(rows, columns) * k:
                break


@benchmark(first=str, second=str, split="test", ks=[1, 5, 10, 20, 50, 100], device="cpu")
def cascade(options: argparse.Namespace) -> None:
    """Seconds and recall of a cascade against K, in a project whose runs FIRST and SECOND are embedded.

    A row for the first run alone, one for each K, and one for the second run alone, all under nearest neighbours, both
    directions; pairs: how many the second run scored, in percent of all.
    """
    runs = tuple(Embedded.read(paths.embedded(name), name) for name in (options.first, options.second))
    split = Ensemble(runs).split(options.split, options.device)
    first, second = (run.similarity(options.device) for run in runs)
    images, captions = len(split.image_ids), len(split.caption_ids)
    show(f"{images} images, {captions} captions")
    show(f"{'':8}{'seconds':>9}{'pairs %':>9}{'i2t R@1, 5, 10':>22}{'t2i R@1, 5, 10':>22}{'rsum':>8}")
    _show_recall("first", trials([split.part(0)], _BANK, first, 0, 0), lambda: 0.0)
    for k in options.ks:
        pairs = ScoredPairs(split.part(1).images, split.part(1).captions, second, 0)
        scorers = {"image_to_text": pairs.score, "text_to_image": pairs.turned}
        cascades = {
            direction: [_cascaded(trial, scorers[direction], k)]
            for direction, (trial,) in trials([split.part(0)], _BANK, first, 0, 0).items()
        }
        _show_recall(f"K {k}", cascades, lambda pairs=pairs: 100 * pairs.scored / (images * captions))
    _show_recall("second", trials([split.part(1)], _BANK, second, 0, 0), lambda: 100.0)


def _cascaded(trial: Trial, scorer: Callable, k: int) -> Trial:
    return Trial(trial.scores, trial.bank, trial.truth, lambda scores: cascaded(scores, scorer, k))


def _show_recall(name: str, by_direction: dict[str, list[Trial]], percent: Callable[[], float]) -> None:
    """percent: the pairs that were scored, known after the ranking."""
    recalls: dict[str, list[float]] = {}

    def rank() -> None:
        for direction in DIRECTIONS:
            (trial,) = by_direction[direction]
            hits = evaluation.rank(trial.under(parse("nns", {})), trial.truth, "pessimistic").hits
            recalls[direction] = [100.0 * float(hit.mean()) for hit in hits.values()]

    spent = seconds(rank)
    columns = "".join(f"{' '.join(f'{recall:.1f}' for recall in recalls[direction]):>22}" for direction in DIRECTIONS)
    show(f"{name:8}{spent:9.2f}{percent():9.1f}{columns}{sum(map(sum, recalls.values())):8.1f}")


@benchmark(dim=512, images=1000, mentions=17, proposals=100, phrases=8000, device="cpu")
def localize(options: argparse.Namespace) -> None:
    """Seconds of one core to localise as many phrases as the test split of Flickr30k Entities has, once embedded."""
    rng = np.random.default_rng(0)
    mentions, proposals = (
        _boxes(rng, options.images, rows, options.dim) for rows in (options.mentions, options.proposals)
    )
    count = options.images * options.mentions
    # A phrase is the more frequent the smaller its number.
    texts = (options.phrases * rng.random(count) ** 2).astype(np.int64)
    types = rng.choice(
        ("people", "clothing", "bodyparts", "animals", "vehicles", "instruments", "scene", "other"), count
    )
    started = time.process_time()
    ranked = list(scenes(mentions, proposals, _product, options.device))
    ranks = joined([Ranks.from_scene(scene, 0.5) for scene in ranked])
    ranking = time.process_time() - started
    show(f"{count} mentions x {options.proposals} proposals, {options.dim} dimensions; ranked {ranking:.2f} s")
    for resamples in (0, LocalizeParams().resamples):
        started = time.process_time()
        localised_figures(ranked, ranks, texts, types, LocalizeParams(resamples=resamples), 1)
        show(f"figures with {resamples} resamples {time.process_time() - started:.2f} s")


def _boxes(rng: np.random.Generator, images: int, rows: int, dim: int) -> BoxSide:
    corners = rng.uniform(0, 300, (images * rows, 2))
    boxes = np.hstack([corners, corners + rng.uniform(40, 200, (images * rows, 2))])
    vectors = rng.standard_normal((images * rows, dim)).astype(np.float32)
    owners = pa.table({"image_id": np.repeat(np.arange(images), rows)})
    return BoxSide.from_table(owners, "image_id", boxes, vectors)


if __name__ == "__main__":
    run(__name__)
