"""``python -m tests.benchmarks.search``: seconds of the first answer of ``vse-pipe search``, start-up included.

Writes a project of random vectors (30,000 images and captions of 1,024 numbers by default) below a temporary folder, with a
GRU of 10,000 words that reads the sentence, and calls the command line five times in new processes for each criterion. For
criteria against hubs the call that computes the correction comes first and is printed by itself.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipeline.artifacts import captions, embeddings, images, model_files, texts
from pipeline.artifacts.embeddings import Side
from pipeline.core.tokens import SPECIAL, Tokens
from pipeline.project import paths
from pipeline.project.params.load import load
from pipeline.project.registry import RUN_FAMILIES
from pipeline.train.engine.model import build, describe
from tests.toy_project import write_params

QUERY = "two dogs running on grass"
WORDS = 10_000


def project(root: Path, items: int, per_image: int, dim: int) -> None:
    """All that a search reads: data set, text features, model and embeddings, without a training."""
    members = {"text": {"gru": {"word_dim": 300}}, "train": {"embed_size": dim}}
    params = load(write_params(root, **members))
    rng = np.random.default_rng(0)
    ids, owners = np.arange(items), np.repeat(np.arange(items), per_image)
    split, of_captions = np.full(items, "test"), np.full(len(owners), "test")
    prepared = root / paths.prepared("toy")
    zeros = np.zeros(items, np.int32)
    columns = {"image_id": ids, "file": [f"{number:09d}.jpg" for number in ids], "split": split}
    images.write(
        prepared, pa.table({**columns, "width": zeros + 640, "height": zeros + 480, "sha256": [""] * items}), "."
    )
    written = [f"a caption of image {number} with two dogs on grass" for number in owners]
    columns = {"caption_id": np.arange(len(owners)), "image_id": owners, "text": written, "split": of_captions}
    captions.write(prepared, pa.table(columns))
    words = [*SPECIAL, *QUERY.split()]
    words += [f"word{number}" for number in range(WORDS - len(words))]
    extracted = root / paths.extracted("toy", "words")
    tokens = Tokens(np.array([1, 2]), np.zeros(len(owners), np.int64), np.full(len(owners), 2))
    meta = {"method": "words", "options": params.texts["words"].method.params.model_dump()}
    texts.write_tokens(extracted, columns["caption_id"], tokens, words, 0, meta)
    node = params.runs["sum"]
    model = build(node.image, node.text, node.similarity, (2048,), WORDS, dim, seed=0)
    config = {key: describe(getattr(node, key)) for key in RUN_FAMILIES}
    config |= {"embed_size": dim, "feature_shape": [2048], "text_inputs": WORDS, "dataset": "toy", "texts": "words"}
    config["texts_sha256"] = texts.read(extracted).digest
    model_files.write(root / paths.trained("sum"), model.state_dict(), words, {**config, "features": "plain"})
    digest = model_files.read(root / paths.trained("sum")).digest
    about = {
        "run": "sum",
        "model_sha256": digest,
        "similarity": "cosine",
        "similarity_params": "{}",
        "normalised": "true",
    }
    for name, of, key, kept in [
        (embeddings.IMAGES, ids, ids, split),
        (embeddings.CAPTIONS, owners, np.arange(len(owners)), of_captions),
    ]:
        vectors = rng.standard_normal((len(of), dim), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        embeddings.write(root / paths.embedded("sum") / name, Side(key, of, kept, vectors, about))


def call(root: Path, inference: str) -> tuple[float, dict]:
    """Seconds from the start of the process until its answer stands on stdout, and the answer."""
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "search", QUERY, "--run", "sum"]
    command += ["--json", "--inference", inference]
    started = time.monotonic()
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        first = process.stdout.readline()
        spent = time.monotonic() - started
        content = first + process.stdout.read()
    return spent, json.loads(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=30_000)
    parser.add_argument("--captions", type=int, default=1, help="of an image")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--inference", nargs="+", default=["nns", "csls"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project(Path(folder), options.items, options.captions, options.dim)
        for inference in options.inference:
            first, answer = call(Path(folder), inference)
            spent = [call(Path(folder), inference)[0] for _ in range(options.repeats)]
            computed = answer["correction"].get("seconds", 0.0)
            sys.stdout.write(
                f"{inference}: {statistics.median(spent):.2f} s, the median of {options.repeats} ({min(spent):.2f} to "
                f"{max(spent):.2f}); the call before {first:.2f} s, {computed:.2f} s of it for the correction\n"
            )


if __name__ == "__main__":
    main()
