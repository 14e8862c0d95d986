"""``python -m benchmarks.audits flickr8k_precomp``: how often an audit's interval holds the true number of mismatches.

The folder has Flickr8k in the layout of format ``precomp``. Three data sets: its pictures and words; its pictures and
captions as vectors of one space, by a linear map of other pictures; the drawn shapes of the demo. A line of JSON for
each data set, and for its captions an image.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

SIZES, EACH, RATES, DRAWS = (150, 300, 1000), (1, 5), (0.05, 0.1, 0.3), 4
# Pictures of Flickr8k from which the common space is learnt.
LEARNT = 2500


def photographs(folder: Path) -> tuple[np.ndarray, list[list[str]]]:
    vectors = np.load(folder / "train_ims.npy").astype(np.float32)
    lines = (folder / "train_caps.txt").read_text().splitlines()
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), [
        lines[at : at + 5] for at in range(0, len(lines), 5)
    ]


def shapes() -> tuple[np.ndarray, list[list[str]]]:
    from ruamel.yaml import YAML

    from vse_pipe.artifacts import captions, features
    from vse_pipe.extract.stage import extract
    from vse_pipe.prepare.stage import prepare
    from vse_pipe.project import paths
    from vse_pipe.project.params.load import load

    root = Path(__file__).parents[1]
    yaml = YAML()
    with (root / "params.yaml").open() as file:
        params = yaml.load(file)
    drawn = {"format": "shapes", "source": str(root / "pipeline/vse_pipe/prepare/scene.py"), "train": 2000}
    params["datasets"] = {"shapes": drawn}
    params["runs"] = params["texts"] = params["noises"] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with Path("params.yaml").open("w") as file:
            yaml.dump(params, file)
        loaded = load(paths.PARAMS)
        prepare(loaded, "shapes")
        extract(loaded, "filters", "cpu")
        table = captions.read(paths.prepared("shapes")).to_pandas().query("split == 'train'")
        stored = features.read(paths.extracted("shapes", "filters"))
        vectors = stored.array[stored.rows_of(np.unique(table["image_id"]))].astype(np.float32)
        os.chdir(root)
    return vectors, [group.tolist() for _, group in table.groupby("image_id")["text"]]


def joint(vectors: np.ndarray, captions: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Images and captions, (images, 5, d), in one space."""
    from vse_pipe.audit import pool
    from vse_pipe.audit.evidence import TEXT_RIDGE
    from vse_pipe.audit.pairs import word_vectors

    owners = np.repeat(np.arange(len(vectors)), 5)
    words, images = word_vectors([*chain(*captions)], 0), pool.reduced(vectors, 256)
    learnt, shown = words[: 5 * LEARNT], images[owners[: 5 * LEARNT]]
    square = learnt.T @ learnt
    ridge = TEXT_RIDGE * np.trace(square) / len(square)
    mapped = pool.unit(words @ np.linalg.solve(square + ridge * np.eye(len(square)), learnt.T @ shown))
    return images[LEARNT:], mapped.reshape(len(images), 5, -1)[LEARNT:]


def audits(
    images: np.ndarray, captions: list | np.ndarray, each: int
) -> Iterator[tuple[int, float, float, float, int]]:
    """Number of mismatches, the expected one, both limits, and pairs, of each audit."""
    from vse_pipe.audit import evidence, pool
    from vse_pipe.audit.pairs import word_vectors
    from vse_pipe.inject.protocols.caption import corrupt

    for size in SIZES:
        for draw in range(DRAWS):
            chosen = np.random.default_rng([draw, size]).choice(len(images), size, replace=False)
            shown = [captions[image][:each] for image in chosen]
            owners = np.repeat(np.arange(size), [len(few) for few in shown])
            is_joint = isinstance(captions, np.ndarray)
            texts = np.concatenate(shown) if is_joint else word_vectors([*chain(*shown)], draw)
            for rate in RATES:
                places = corrupt(owners, size, rate, np.random.RandomState(draw))
                used, rows = np.unique(places, return_inverse=True)
                pictures = images[chosen[used]] if is_joint else pool.reduced(images[chosen[used]])
                doubts = evidence.measure(pool.PairPool.create(pictures, texts, rows, joint=is_joint, seed=draw))
                expected, (low, high) = doubts.total()
                yield int((places != owners).sum()), expected, low, high, len(owners)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    folder = options.parse_args().data.resolve()
    photos = photographs(folder)
    for name, (images, captions) in {"words": photos, "one space": joint(*photos), "shapes": shapes()}.items():
        for each in EACH:
            true, expected, low, high, pairs = np.array(list(audits(images, captions, each))).T
            figures = {
                "data": name,
                "captions": each,
                "audits": len(true),
                "held": int(((low <= true) & (true <= high)).sum()),
                "width": round(float(((high - low) / pairs).mean()), 3),
                "error": round(float((np.abs(expected - true) / pairs).mean()), 3),
            }
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    sys.exit(main())
