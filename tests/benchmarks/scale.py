"""``python -m tests.benchmarks.scale STAGE ... --at FOLDER --items N ...``: the measured points of docs/scale.md.

Makes a data set of N captions below FOLDER (five an image, eleven words each, features and word vectors of ``--dim`` numbers,
format ``precomp``) and calls the stages by the command line in the order they are named, each a process of its own. Printed are
the seconds of the processor and the largest memory of each. A stage needs those before it in the
folder: ``prepare extract texts inject train embed`` is a whole run. ``evaluate`` makes vectors of N captions instead, ranks them
by each of ``--inference`` with the bootstrap off, and needs none.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from ruamel.yaml import YAML

_EACH, _WORDS, _HELD_OUT = 5, 11, 200
_BLOCK = 100_000
_FILES = ("images.npy", "captions.npy", "caption-images.npy")
GIVEN = [f"--{name.removesuffix('.npy')}={name}" for name in _FILES]
COMMANDS = {
    "prepare": ["prepare"],
    "extract": ["extract", "--features", "made"],
    "texts": ["extract", "--texts", "vectors"],
    "words": ["extract", "--texts", "ids"],
    "inject": ["inject"],
    "train": ["train", "--run", "heads"],
    "gru": ["train", "--run", "gru"],
    "embed": ["embed", "--run", "heads"],
}


def params(hidden: int) -> dict:
    """One epoch of a run of heads on vectors and one of a GRU on words. hidden: numbers of an embedding and a layer."""
    run = {
        "dataset": "made",
        "features": "made",
        "noise": "clean",
        "loss": "sum",
        "scheme": "plain",
        "similarity": "cosine",
    }
    return {
        "seed": 1,
        "grid": {"inferences": ["nns"]},
        "datasets": {"made": {"format": "precomp", "source": "raw"}},
        "features": {"made": {"dataset": "made", "backbone": "precomp"}},
        "texts": {
            "vectors": {"dataset": "made", "method": "mean_vectors", "vectors": "raw/words.npz"},
            "ids": {"dataset": "made", "method": "words", "min_count": 1},
        },
        "noises": {"clean": {"dataset": "made", "protocol": "image", "rate": 0.2}},
        "runs": {
            "heads": {**run, "texts": "vectors", "text": "residual", "image": "residual"},
            "gru": {**run, "texts": "ids", "text": "gru", "image": "linear"},
        },
        "train": {"epochs": 1, "embed_size": hidden},
        "text": {"residual": {"hidden": hidden}, "gru": {"word_dim": 64}},
        "image": {"residual": {"hidden": hidden}},
        "evaluate": {},
        "report": {},
    }


def _lines(rng: np.random.Generator, count: int, words: np.ndarray) -> Iterator[str]:
    for start in range(0, count, _BLOCK):
        for row in words[rng.integers(len(words), size=(min(_BLOCK, count - start), _WORDS))]:
            yield " ".join(row) + "\n"


def make(root: Path, captions: int, dim: int, hidden: int, vocabulary: int) -> None:
    rng, raw = np.random.default_rng(0), root / "raw"
    raw.mkdir(parents=True)
    with (root / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(params(hidden), file)
    words = np.array([f"word{number}" for number in range(vocabulary)])
    np.savez(raw / "words.npz", words=words, vectors=rng.standard_normal((vocabulary, dim), np.float32))
    for prefix, images in (("train", captions // _EACH), ("dev", _HELD_OUT), ("test", _HELD_OUT)):
        np.save(raw / f"{prefix}_ims.npy", rng.standard_normal((images, dim), np.float32))
        with (raw / f"{prefix}_caps.txt").open("w", encoding="utf-8") as file:
            file.writelines(_lines(rng, images * _EACH, words))


# What ``--verbose`` tells is never less than the memory of the process that called it.
_TOLD = """
import atexit, sys, time
from vse_pipe.cli import main
def told():
    peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    sys.stderr.write(f" {time.process_time()} {int(peak) / 1024}")
atexit.register(told)
main()
"""


def point(root: Path, command: list[str]) -> tuple[float, float]:
    """Processor seconds and peak MiB of a call of the command line."""
    done = subprocess.run([sys.executable, "-c", _TOLD, *command], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    seconds, peak = map(float, done.stderr.split()[-2:])
    return seconds, peak


def show(stage: str, items: str, found: tuple[float, float]) -> None:
    sys.stdout.write(f"{stage:12}{items:>20}{found[0]:10.1f} s{found[1]:8.0f} MiB\n")
    sys.stdout.flush()


def vectors(folder: Path, captions: int, dim: int) -> None:
    """Files for ``vse-pipe evaluate --images``, where they are not there already."""
    if folder.is_dir():
        return
    from tests.benchmarks.evaluate import embeddings

    split = embeddings(captions // _EACH, captions, dim)
    folder.mkdir(parents=True)
    for name, array in zip(_FILES, (split.images, split.captions, split.caption_images), strict=True):
        np.save(folder / name, np.asarray(array))


def evaluate(folder: Path, captions: int, options: argparse.Namespace) -> None:
    vectors(folder, captions, options.dim)
    for inference in options.inference:
        command = ["-S", "evaluate.resamples=0", *options.set, "evaluate", *GIVEN, "--inference", inference, "--json"]
        show(inference, f"{captions // _EACH} x {captions}", point(folder, command))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="+", choices=[*COMMANDS, "evaluate"])
    parser.add_argument("--at", type=Path, required=True)
    parser.add_argument("--items", type=int, nargs="+", required=True, help="captions")
    for name, default in (("dim", 16), ("hidden", 256), ("vocabulary", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--inference", nargs="+", default=["nns", "csls"])
    parser.add_argument("--set", action="append", default=[], help="as -S of the command line, for evaluate")
    options = parser.parse_args()
    options.set = [word for each in options.set for word in ("-S", each)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for items in options.items:
        root = options.at / str(items)
        for stage in options.stages:
            if stage == "evaluate":
                evaluate(options.at / f"vectors-{items}", items, options)
                continue
            if not root.is_dir():
                make(root, items, options.dim, options.hidden, options.vocabulary)
            show(stage, str(items), point(root, COMMANDS[stage]))


if __name__ == "__main__":
    main()
