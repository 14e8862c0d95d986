"""``python -m tests.benchmarks.search``: seconds of the first answer of ``vse-pipe search``, start-up included.

Writes a project of planted vectors below a temporary folder or ``--at`` one that stays: images around ``--topics`` centres,
captions beside their images, and a GRU of 10,000 words that reads the sentence. Then it calls the command line in new
processes for each criterion, or each ``--set`` of parameters. The first call, which computes corrections, is printed by itself. Beside the seconds on the clock stand those of the processors, which other programs on the
machine do not lengthen as much, and the largest memory of a call beside that of the vectors searched. ``--warm`` asks an engine
that is open, as ``vse-pipe serve`` does;
``--device cuda`` encodes the query there.
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from tests.benchmarks import devices
from tests.toy_project import write_params
from vse_pipe.artifacts import captions, embeddings, images, model_files, texts
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.text import SPECIAL, Tokens
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.registry import RUN_FAMILIES
from vse_pipe.train.model import build, describe

QUERY = "two dogs running on grass"
WORDS = 10_000


@dataclass(frozen=True)
class Call:
    """seconds: from the start of the process until its answer stands on stdout; processors: of all of it; mib: its largest memory."""

    seconds: float
    processors: float
    mib: float


def planted(rng: np.random.Generator, centres: np.ndarray, topics: np.ndarray, noise: float) -> np.ndarray:
    """Unit vectors around the centres of their topics, some at a time."""
    found = np.empty((len(topics), centres.shape[1]), np.float32)
    for start in range(0, len(topics), 65536):
        block = slice(start, start + 65536)
        found[block] = centres[topics[block]]
        found[block] += noise / centres.shape[1] ** 0.5 * rng.standard_normal(found[block].shape, np.float32)
        found[block] /= np.linalg.norm(found[block], axis=1, keepdims=True)
    return found


def project(root: Path, items: int, described: int, dim: int, topics: int) -> None:
    """All that a search reads: data set, text features, model and embeddings, without a training. described: captions in all."""
    members = {"text": {"gru": {"word_dim": 300}}, "train": {"embed_size": dim}}
    params = load(write_params(root, **members))
    rng = np.random.default_rng(0)
    ids, owners = np.arange(items), np.arange(described) % items
    centres = rng.standard_normal((topics, dim), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    of_images = rng.integers(topics, size=items)
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
    tokens = Tokens(np.tile([1, 2], len(owners)), 2 * np.arange(len(owners)), np.full(len(owners), 2))
    meta = {"method": "words", "options": params.texts["words"].method.params.model_dump()}
    texts.write_tokens(extracted, columns["caption_id"], [(tokens, 0)], words, meta)
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
        vectors = planted(rng, centres, of_images[of], 1.0)
        embeddings.write(root / paths.embedded("sum") / name, Side(key, of, kept, vectors, about))


# The largest memory, as the process itself saw it: what wait4 says counts the memory of whoever started it.
_CALLED = """
import atexit, sys
atexit.register(lambda: sys.stderr.write(open("/proc/self/status").read()))
from vse_pipe.cli import main
main()
"""


def call(root: Path, arguments: list[str]) -> tuple[Call, dict]:
    """A search in a process of its own, and its answer."""
    command = [sys.executable, "-c", _CALLED, *arguments]
    started = time.monotonic()
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        spent = time.monotonic() - started
        content, status = first + process.stdout.read(), process.stderr.read()
        _, ended, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(ended)
    if process.returncode:
        raise SystemExit(status)
    mib = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
    return Call(spent, used.ru_utime + used.ru_stime, mib), json.loads(content)


def warm(root: Path, inference: str, overrides: list[str], repeats: int, device: torch.device) -> list[float]:
    """Seconds of each answer of an engine that has answered before."""
    from vse_pipe.tools.search.engine import Engine

    with contextlib.chdir(root):
        engine = Engine.open(load(Path("params.yaml"), overrides), "sum", inference, device=str(device))
        return [engine.by_text(QUERY).seconds for _ in range(repeats + 1)][1:]


def told(seconds: list[float]) -> str:
    return (
        f"{statistics.median(seconds):.3f} s, the median of {len(seconds)} ({min(seconds):.3f} to {max(seconds):.3f})"
    )


def measure(root: Path, options: argparse.Namespace, inference: str) -> None:
    arguments = [word for one in options.set for word in ("-S", one)]
    arguments += ["search", QUERY, "--run", "sum", "--json", "--inference", inference, "--device", str(options.device)]
    first, answer = call(root, arguments)
    calls = [call(root, arguments)[0] for _ in range(options.repeats)]
    held = 4 * options.dim * options.items / 2**20
    lines = [
        f"{inference}: {told([one.seconds for one in calls])}; on the processors {told([one.processors for one in calls])}",
        f"  memory {max(one.mib for one in calls):.0f} MiB, of vectors {held:.0f} MiB",
        f"  the call before {first.seconds:.2f} s, {first.processors:.2f} s on the processors, {first.mib:.0f} MiB",
    ]
    if answer["correction"]:
        lines.append(f"  its correction {answer['correction']['seconds']:.2f} s")
    if options.warm:
        lines.append(f"  warm: {told(warm(root, inference, options.set, 10 * options.repeats, options.device))}")
    sys.stdout.write("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=30_000)
    parser.add_argument("--captions", type=int, help="of all images together; as many as images without it")
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--topics", type=int, default=1000, help="centres that images lie around")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--inference", nargs="+", default=["nns", "csls"])
    parser.add_argument("--set", action="append", default=[], help="as -S of the command line")
    devices.add(parser)
    parser.add_argument("--warm", action="store_true", help="ask an open engine too")
    parser.add_argument("--at", type=Path, help="keep the project here; one that is there is used")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.at or Path(temporary)
        if not (root / paths.embedded("sum") / embeddings.CAPTIONS).is_file():
            root.mkdir(parents=True, exist_ok=True)
            project(root, options.items, options.captions or options.items, options.dim, options.topics)
        for inference in options.inference:
            measure(root, options, inference)


if __name__ == "__main__":
    main()
