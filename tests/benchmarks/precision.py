"""``python -m tests.benchmarks.precision FEATURES OTHER --run hal --out compared``: how far two extractions are apart.

In a project whose run was trained on the folder FEATURES. Prints the cosines between the rows of FEATURES and OTHER (the
same images under another precision, say), and writes the run's test images, encoded from OTHER, and its test captions to the
folder --out. ``vse-pipe evaluate --images compared/images.parquet --captions compared/captions.parquet --inference nns`` says
what that does to R@K, beside the figures of the run itself.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.benchmarks import devices
from vse_pipe.artifacts import embeddings, features
from vse_pipe.project import paths
from vse_pipe.train import model as train_model
from vse_pipe.train import restore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("features", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--run", required=True)
    parser.add_argument("--out", type=Path, required=True)
    devices.add(parser)
    options = parser.parse_args()
    one, other = features.read(options.features), features.read(options.other)
    if not np.array_equal(one.image_ids, other.image_ids):
        raise SystemExit("the two folders hold features of different images")
    sys.stdout.write(f"{options.features}: {one.meta['precision']}; {options.other}: {other.meta['precision']}\n")
    found = cosines(one, other)
    sys.stdout.write(f"{len(found)} images, cosine: lowest {found.min():.6f}, median {np.median(found):.6f}\n")
    encoded(options, other)


def cosines(one: features.Features, other: features.Features) -> np.ndarray:
    left, right = (np.asarray(side.array[side.rows], dtype=np.float64) for side in (one, other))
    return (left * right).sum(-1) / np.linalg.norm(left, axis=-1) / np.linalg.norm(right, axis=-1)


def encoded(options: argparse.Namespace, other: features.Features) -> None:
    model, _ = restore.load(paths.trained(options.run))
    model.to(options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    folder = paths.embedded(options.run)
    images, captions = (
        embeddings.read(folder / name).split("test") for name in (embeddings.IMAGES, embeddings.CAPTIONS)
    )
    vectors = train_model.images(model, other.array, other.rows_of(images.ids), options.device).cpu().numpy()
    embeddings.write(options.out / embeddings.IMAGES, replace(images, vectors=vectors))
    embeddings.write(options.out / embeddings.CAPTIONS, captions)


if __name__ == "__main__":
    main()
