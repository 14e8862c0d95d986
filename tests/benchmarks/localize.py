"""Seconds of one core to localise as many phrases as the test split of Flickr30k Entities has, once embedded:
``python -m tests.benchmarks.localize``; on a GPU with ``--device cuda``."""

import argparse
import time

import numpy as np
import pyarrow as pa

from tests.benchmarks import devices
from vse_pipe.localize.figures import metrics
from vse_pipe.localize.ranks import BoxSide, Ranks, joined, scenes
from vse_pipe.project.params.schema import LocalizeParams

PICTURES, MENTIONS, PROPOSALS, PHRASES = 1000, 17, 100, 8000
TYPES = ("people", "clothing", "bodyparts", "animals", "vehicles", "instruments", "scene", "other")


def sides(dim: int) -> tuple[BoxSide, BoxSide, np.ndarray, np.ndarray]:
    """Mentions, proposals, and text and type of each mention; a phrase is the more frequent the smaller its number."""
    rng = np.random.default_rng(0)
    made = []
    for rows in (MENTIONS, PROPOSALS):
        owners = pa.table({"image_id": np.repeat(np.arange(PICTURES), rows)})
        corner = rng.uniform(0, 300, (PICTURES * rows, 2))
        boxes = np.hstack([corner, corner + rng.uniform(40, 200, (PICTURES * rows, 2))])
        vectors = rng.standard_normal((PICTURES * rows, dim)).astype(np.float32)
        made.append(BoxSide.of(owners, "image_id", boxes, vectors))
    texts = (PHRASES * rng.random(PICTURES * MENTIONS) ** 2).astype(np.int64)
    return made[0], made[1], texts, rng.choice(TYPES, PICTURES * MENTIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=512)
    devices.add(parser)
    options = parser.parse_args()
    dim = options.dim
    mentions, proposals, texts, types = sides(dim)
    started = time.process_time()
    found = list(scenes(mentions, proposals, lambda images, words: images @ words.T, options.device))
    ranks = joined([Ranks.of(scene, 0.5) for scene in found])
    ranked = time.process_time()
    chosen = LocalizeParams()
    metrics(found, ranks, texts, types, chosen.model_copy(update={"resamples": 0}), 1)
    measured = time.process_time()
    metrics(found, ranks, texts, types, chosen, 1)
    print(f"{len(texts)} mentions x {PROPOSALS} proposals, {dim} dimensions")
    print(f"ranked {ranked - started:.2f} s, figures {measured - ranked:.2f} s", end=", ")
    print(f"with intervals {time.process_time() - measured:.2f} s")


if __name__ == "__main__":
    main()
