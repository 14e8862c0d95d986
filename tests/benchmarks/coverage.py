"""How often a 95% interval holds the truth, simulated: ``python -m tests.benchmarks.coverage``; docs/comparisons.md sums it up.

A query succeeds at K where a sum of normal effects passes a threshold: of its image and of itself, the same in all trainings;
of the seed, of seed and image, and of seed and query. So the truth, the figure expected of a new seed on new images, is
known. An image is a query for texts and its five captions are queries for images. A and B share part of the effects of images,
queries and seeds; "other seeds" gives B ten of its own.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from vse_pipe.ranking.comparison import Repetitions, of_difference, of_one
from vse_pipe.ranking.intervals import interval

SEEDS, MOST, QUERIES, SHARED = (3, 5, 10), 10, 6, 0.6
RECALLS = (0.25, 0.55, 0.70)  # R@1, R@5, R@10 of A in the direction of texts, about those of Flickr8k
KINDS = ("R@1", "rsum", "rsum, B - A", "B - A, other seeds")


@dataclass(frozen=True)
class World:
    """Standard deviations of the effects; what is left to 1 in variance is of seed and query. better: B's advantage."""

    name: str
    images: int
    seed: float
    image: float
    both: float
    better: float


WORLDS = (
    World("seeds hardly matter", 500, 0.01, 0.7, 0.1, 0.0),
    World("like the demo", 200, 0.05, 0.6, 0.3, 0.1),
    World("like Flickr8k", 1000, 0.04, 0.6, 0.4, 0.05),
    World("seeds matter most", 500, 0.2, 0.5, 0.3, 0.2),
    World("no ease of images", 500, 0.05, 0.0, 0.6, 0.0),
)


def contributions(world: World, rng: np.random.Generator) -> list[np.ndarray]:
    """Of A, of B with A's seeds and of B with others: what each image adds to R@1 and rsum, (2, seeds, images)."""
    query = 0.4
    own = np.sqrt(1 - world.image**2 - world.both**2 - world.seed**2 - query**2)
    image, queries = (rng.standard_normal((3, world.images, *rest)) for rest in ((1,), (QUERIES,)))
    seeds = rng.standard_normal((3, MOST))
    for effects in (image, queries, seeds):
        effects[1] = SHARED * effects[0] + np.sqrt(1 - SHARED**2) * effects[1]
    image[2], queries[2] = image[1], queries[1]
    found = []
    for number in range(3):
        latent = world.image * image[number] + query * queries[number] + (world.better if number else 0.0)
        latent = latent + world.seed * seeds[number][:, None, None]
        latent += world.both * rng.standard_normal((MOST, world.images, 1))
        latent += own * rng.standard_normal(latent.shape)
        hits = [100.0 * (latent > norm.isf(share)) for share in RECALLS]
        rsum = sum(hit[:, :, 0] + hit[:, :, 1:].mean(axis=2) for hit in hits)
        found.append(np.stack([hits[0][:, :, 0], rsum]))
    return found


def truths(world: World) -> list[float]:
    of_a, of_b = ([100.0 * norm.sf(norm.isf(share) - better) for share in RECALLS] for better in (0.0, world.better))
    difference = 2 * (sum(of_b) - sum(of_a))
    return [of_a[0], 2 * sum(of_a), difference, difference]


def inside(world: World, given: argparse.Namespace) -> np.ndarray:
    """Share of simulations in which the interval holds the truth: (ours or percentile, kind, number of seeds)."""
    rng = np.random.default_rng(given.seed)
    known, held = truths(world), np.zeros((2, len(KINDS), len(SEEDS)))
    for simulation in range(given.simulations):
        if simulation % 20 == 0:
            weights = rng.multinomial(world.images, np.full(world.images, 1 / world.images), given.draws)
            weights = weights.astype(np.float64).T / world.images
        a, b, other = (
            [Repetitions(one.mean(axis=1), one @ weights) for one in each] for each in contributions(world, rng)
        )
        for column, count in enumerate(SEEDS):
            r1, of_a, of_b, of_other = (
                Repetitions(one.values[:count], one.draws[:count]) for one in (a[0], a[1], b[1], other[1])
            )
            ours = [of_one(r1), of_one(of_a), of_one(of_b - of_a), of_difference(of_a, of_other)]
            plain = [
                _drawn(r1, rng),
                _drawn(of_a, rng),
                _drawn(of_b - of_a, rng),
                _drawn(of_other, rng) - _drawn(of_a, rng),
            ]
            for kind, truth in enumerate(known):
                for row, (low, high) in enumerate((ours[kind].interval(), interval(plain[kind]))):
                    held[row, kind, column] += low <= truth <= high
    return held / given.simulations


def _drawn(figure: Repetitions, rng: np.random.Generator) -> np.ndarray:
    """The plain way: seeds drawn with replacement, like the images."""
    seeds, draws = figure.draws.shape
    times = rng.multinomial(seeds, np.full(seeds, 1 / seeds), draws) / seeds
    return (times.T * figure.draws).sum(axis=0)


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def main() -> None:
    given = options()
    print(f"coverage in %, {given.simulations} simulations; in brackets seeds and images drawn, percentiles")
    print(f"{'':34}" + "".join(f"{f'{count} seeds':>16}" for count in SEEDS))
    for world in WORLDS:
        ours, plain = 100 * inside(world, given)
        for kind, name in enumerate(KINDS):
            cells = [f"{one:.1f} ({other:.1f})" for one, other in zip(ours[kind], plain[kind], strict=True)]
            print(
                f"{world.name if not kind else '':22}{name:20}"[:42].ljust(42)
                + "".join(f"{cell:>14}" for cell in cells),
                flush=True,
            )


if __name__ == "__main__":
    main()
