"""``python -m benchmarks.intervals coverage``: simulated intervals; docs/experiments.md has the output."""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from benchmarks.measure import benchmark, run, show
from vse_pipe.ranking.comparison import Repetitions, difference_spread, figure_spread
from vse_pipe.ranking.intervals import interval

SEEDS, QUERIES, SHARED = (3, 5, 10), 6, 0.6
RECALLS = (0.25, 0.55, 0.70)  # R@1, R@5, R@10 of A in the direction of texts, about those of Flickr8k
FIGURES = ("R@1", "rsum", "rsum, B - A", "B - A, other seeds")
_OF_QUERIES = 0.4  # standard deviation


@dataclass(frozen=True)
class World:
    """Standard deviations of the effects; what is left to 1 in variance is of seed and query. better: B's advantage."""

    name: str
    images: int
    seed: float
    image: float
    seed_and_image: float
    better: float


WORLDS = (
    World("seeds hardly matter", 500, 0.01, 0.7, 0.1, 0.0),
    World("like the demo", 200, 0.05, 0.6, 0.3, 0.1),
    World("like Flickr8k", 1000, 0.04, 0.6, 0.4, 0.05),
    World("seeds matter most", 500, 0.2, 0.5, 0.3, 0.2),
    World("no ease of images", 500, 0.05, 0.0, 0.6, 0.0),
)


@benchmark(simulations=2000, draws=400, seed=1)
def coverage(options: argparse.Namespace) -> None:
    """How often a 95% interval holds the truth, simulated.

    A query succeeds at K where a sum of normal effects passes a threshold: of its image and of itself, the same in all
    trainings; of the seed, of seed and image, and of seed and query. So the truth, the figure expected of a new seed
    on new images, is known. A and B share part of the effects; "other seeds" gives B ten of its own.
    """
    show(f"coverage in %, {options.simulations} simulations; in brackets seeds and images drawn, percentiles")
    show(f"{'':34}" + "".join(f"{f'{count} seeds':>16}" for count in SEEDS))
    for world in WORLDS:
        ours, plain = 100 * shares(world, options.simulations, options.draws, options.seed)
        for number, name in enumerate(FIGURES):
            cells = [f"{left:.1f} ({right:.1f})" for left, right in zip(ours[number], plain[number], strict=True)]
            row = f"{world.name if not number else '':22}{name:20}"[:42].ljust(42)
            show(row + "".join(f"{cell:>14}" for cell in cells))


def shares(world: World, simulations: int, draws: int, seed: int = 1) -> np.ndarray:
    """Share of simulations in which the interval holds the truth: (ours or percentile, figure, number of seeds)."""
    rng = np.random.default_rng(seed)
    truths, holds = _truths(world), np.zeros((2, len(FIGURES), len(SEEDS)))
    for simulation in range(simulations):
        if simulation % 20 == 0:
            weights = rng.multinomial(world.images, np.full(world.images, 1 / world.images), draws)
            weights = weights.astype(np.float64).T / world.images
        worlds = _contributions(world, rng)
        a, b, reseeded = ([Repetitions(one.mean(axis=1), one @ weights) for one in figures] for figures in worlds)
        for column, count in enumerate(SEEDS):
            figures = (a[0], a[1], b[1], reseeded[1])
            r1, of_a, of_b, of_reseeded = (Repetitions(one.values[:count], one.draws[:count]) for one in figures)
            ours = [*map(figure_spread, (r1, of_a, of_b - of_a)), difference_spread(of_a, of_reseeded)]
            plain = [_drawn(figure, rng) for figure in (r1, of_a, of_b - of_a)]
            plain.append(_drawn(of_reseeded, rng) - _drawn(of_a, rng))
            for number, truth in enumerate(truths):
                for row, (low, high) in enumerate((ours[number].interval(), interval(plain[number]))):
                    holds[row, number, column] += low <= truth <= high
    return holds / simulations


def _contributions(world: World, rng: np.random.Generator) -> list[np.ndarray]:
    """Of A, of B with A's seeds and of B with its own: what each image adds to R@1 and rsum, (2, seeds, images)."""
    rest = np.sqrt(1 - world.image**2 - world.seed_and_image**2 - world.seed**2 - _OF_QUERIES**2)
    image, queries = (rng.standard_normal((3, world.images, width)) for width in (1, QUERIES))
    seeds = rng.standard_normal((3, max(SEEDS)))
    for effects in (image, queries, seeds):
        effects[1] = SHARED * effects[0] + np.sqrt(1 - SHARED**2) * effects[1]
    image[2], queries[2] = image[1], queries[1]
    contributions = []
    for number in range(3):
        latent = world.image * image[number] + _OF_QUERIES * queries[number] + (world.better if number else 0.0)
        latent = latent + world.seed * seeds[number][:, None, None]
        latent += world.seed_and_image * rng.standard_normal((max(SEEDS), world.images, 1))
        latent += rest * rng.standard_normal(latent.shape)
        hits = [100.0 * (latent > norm.isf(share)) for share in RECALLS]
        rsum = sum(hit[:, :, 0] + hit[:, :, 1:].mean(axis=2) for hit in hits)
        contributions.append(np.stack([hits[0][:, :, 0], rsum]))
    return contributions


def _truths(world: World) -> list[float]:
    of_a, of_b = ([100.0 * norm.sf(norm.isf(share) - better) for share in RECALLS] for better in (0.0, world.better))
    difference = 2 * (sum(of_b) - sum(of_a))
    return [of_a[0], 2 * sum(of_a), difference, difference]


def _drawn(figure: Repetitions, rng: np.random.Generator) -> np.ndarray:
    """The plain way: seeds drawn with replacement, like the images."""
    seeds, draws = figure.draws.shape
    times = rng.multinomial(seeds, np.full(seeds, 1 / seeds), draws) / seeds
    return (times.T * figure.draws).sum(axis=0)


if __name__ == "__main__":
    run(__name__)
