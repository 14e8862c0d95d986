"""``python -m tests.benchmarks.members``: seconds an epoch and memory of losses, schemes, encoders and texts, one run each.

A made-up ``precomp`` data set: vectors of images around topics, or as many regions of them, captions of words drawn by rank
around the same topics. Each run is trained by ``vse-pipe train`` for one epoch and for ``1 + --epochs``, in processes of their own,
``--rounds`` times in turn: what is printed is the median of the difference in processor seconds, so without imports and
set-up, and the largest resident memory. ``times`` sets them against ``plain``, or ``mean`` for pooling.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from ruamel.yaml import YAML

from tests.benchmarks.train import show

_TOPICS = 100
_PLAIN = {
    "dataset": "made", "features": "whole", "texts": "tfidf", "noise": "clean", "loss": "infonce", "scheme": "plain",
    "similarity": "cosine", "text": "residual", "image": "residual",
}  # fmt: skip
_REGIONS = {
    "dataset": "parts", "features": "regions", "texts": "words", "noise": "clean_parts", "text": "gru", "image": "pooled",
}  # fmt: skip
_NOISY = {"noise": "mismatched", "loss": "max"}


def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def _curriculum(loss: str) -> dict:
    return {"loss": loss, "options": {"loss": {"curriculum": 2}}}


def _pooled(pooling: str, drop: float = 0.0, **text: object) -> dict:
    image = {"pooling": pooling, "drop": drop}
    return {**_REGIONS, "options": {"image": image, "text": {"pooling": pooling, "drop_words": drop, **text}}}


RUNS: dict[str, dict] = {
    "plain": {},
    "max": {"loss": "max"},
    "max, curriculum": _curriculum("max"),
    "hal": {"loss": "hal"},
    "sigmoid": {"loss": "sigmoid"},
    "hub": {"loss": "hub"},
    "rcl": {**_NOISY, "loss": "rcl"},
    "crcl": {**_NOISY, "loss": "crcl", "scheme": "crcl"},
    "decl": {**_NOISY, "loss": "decl", "scheme": "decl"},
    "ncr": {**_NOISY, "scheme": "ncr", "options": {"scheme": {"warm_up": 1}}},
    "l2rm": {**_NOISY, "scheme": "l2rm", "options": {"scheme": {"warm_up": 1}}},
    "memory_bank": {"loss": "hal", "scheme": "memory_bank"},
    "nothing dropped": {"options": {side: {"drop": 0.0, "dropout": 0.0} for side in ("text", "image")}},
    "average": {"train": {"average": 0.998}},
    "mixed": {"texts": "mixed"},
    "mean": _pooled("mean"),
    "gpo": _pooled("gpo"),
    "gpo, a fifth dropped": _pooled("gpo", drop=0.2),
    "mean, word vectors": _pooled("mean", word_dim=50, vectors="../vectors.npy", words="../words.txt"),
}  # fmt: skip


def write(folder: Path, images: int, regions: int, width: int) -> None:
    """Data, word vectors and an overlay of all runs."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{place}" for place in range(3000)])
    np.save(folder / "vectors.npy", rng.standard_normal((len(words), 50), np.float32))
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    centres = rng.standard_normal((_TOPICS, width), np.float32)
    chances = 1 / np.arange(1, len(words) + 1)
    for name, shape in (("made", ()), ("parts", (regions,))):
        (folder / name).mkdir()
        for split, count in (("train", images), ("dev", 200), ("test", 200)):
            topics = rng.integers(_TOPICS, size=count)
            around = centres[topics] if not shape else centres[topics][:, None]
            vectors = around + rng.standard_normal((count, *shape, width), np.float32)
            np.save(folder / name / f"{split}_ims.npy", vectors)
            drawn = rng.choice(words, (5 * count, 12), p=chances / chances.sum())
            drawn[:, :3] = words[np.repeat(topics, 5)[:, None] * 3 + np.arange(3)]
            (folder / name / f"{split}_caps.txt").write_text("\n".join(map(" ".join, drawn)) + "\n")
    YAML().dump(
        {
            "datasets": {name: {"format": "precomp", "source": str(folder / name)} for name in ("made", "parts")},
            "features": {
                "whole": {"dataset": "made", "backbone": "precomp", "store": "float32"},
                "regions": {"dataset": "parts", "backbone": "precomp", "store": "float32"},
            },
            "texts": {
                "tfidf": {"dataset": "made", "method": "tfidf", "size": 3000},
                "mixed": {
                    "dataset": "made", "method": "mixed",
                    "parts": [
                        {"method": "tfidf", "size": 3000},
                        {"method": "mean_vectors", "vectors": "../vectors.npy", "words": "../words.txt"},
                    ],
                },
                "words": {"dataset": "parts", "method": "words"},
            },
            "noises": {
                "clean": {"dataset": "made", "protocol": "image", "rate": 0.0},
                "mismatched": {"dataset": "made", "protocol": "image", "rate": 0.4},
                "clean_parts": {"dataset": "parts", "protocol": "image", "rate": 0.0},
            },
            "runs": {_key(name): {**_PLAIN, **run} for name, run in RUNS.items()},
            "train": {"batch_size": 128, "embed_size": 512, "lr": 2.0e-4},
            "replace": "nodes",
        },
        folder / "runs.yaml",
    )  # fmt: skip


def run(folder: Path, *words: str) -> tuple[float, float]:
    """Processor seconds and MiB of a command. Ends the benchmark with what it said if it fails."""
    told = folder / "told.txt"
    with told.open("w") as out:
        command = [sys.executable, "-c", "from vse_pipe.cli import main; main()", *words]
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(told.read_text())
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def trained(project: Path, name: str, epochs: int) -> tuple[float, float]:
    """``run`` of a training from the start."""
    shutil.rmtree(project / "data" / "train", ignore_errors=True)
    return run(project, "-S", f"train.epochs={epochs}", "train", "--run", _key(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"images": 2000, "regions": 16, "width": 1280, "epochs": 2, "rounds": 3, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="*", default=list(RUNS), choices=list(RUNS), metavar="RUN")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in options.only}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        project = folder / "project"
        write(folder, options.images, options.regions, options.width)
        run(folder, "init", "project", "--overlay", "runs.yaml")
        for stage in ("prepare", "extract", "inject"):
            run(project, stage)
        for _ in range(options.rounds):
            for name, times in found.items():
                short, long = (trained(project, name, epochs) for epochs in (1, 1 + options.epochs))
                times.append(((long[0] - short[0]) / options.epochs, long[1]))
    epoch = {name: statistics.median(seconds for seconds, _ in times) for name, times in found.items()}
    show(f"{5 * options.images} captions, batch 128, {options.threads} thread(s)\n")
    show("| run | s an epoch | times | MiB |\n|---|---:|---:|---:|")
    for name, times in found.items():
        beside = "mean" if RUNS[name].get("dataset") == "parts" else "plain"
        ratio = f"{epoch[name] / epoch[beside]:.2f}" if beside in epoch else ""
        show(f"| {name} | {epoch[name]:.2f} | {ratio} | {max(memory for _, memory in times):,.0f} |")


if __name__ == "__main__":
    main()
