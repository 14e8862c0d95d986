"""``python -m tests.benchmarks.million``: an evaluation of 10^6 images and 10^6 captions of 256 values.

Writes planted vectors below ``--at`` in blocks (images around 1,000 topics, each caption beside its image), or takes those that are
there. For each criterion slices of the images are ranked against all captions, and these against the slice, in a process of their own
that reads the files as ``vse-pipe evaluate --images --captions`` does. Printed are the seconds of the processor and the largest memory
of each slice, and what the line through them gives for all images.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.benchmarks.search import planted

_BLOCK = 65536
FILES = ("images.npy", "captions.npy", "owners.npy")


def write(folder: Path, items: int, dim: int, topics: int, noise: float) -> None:
    """noise: length of what a caption has beside its image, whose own distance from its topic is about 1."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    centres = rng.standard_normal((topics, dim), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    images = planted(rng, centres, rng.integers(topics, size=items), 1.0)
    np.save(folder / "images.npy", images)
    for start in range(0, items, _BLOCK):
        block = images[start : start + _BLOCK]
        block += noise / dim**0.5 * rng.standard_normal(block.shape, np.float32)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    np.save(folder / "captions.npy", images)
    np.save(folder / "owners.npy", np.arange(items))


def status(key: str) -> float:
    """MiB of this process."""
    return int(re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024


def one(folder: Path, inference: str, queries: int, memory: int) -> None:
    """Print processor seconds of reading and of ranking ``queries`` images and all captions both ways, and peak MiB."""
    import torch

    from vse_pipe.evaluate.external import inputs
    from vse_pipe.evaluate.external.inputs import InputFiles
    from vse_pipe.project.params.schema import EvaluateParams
    from vse_pipe.ranking import criteria
    from vse_pipe.ranking.bank import Bank
    from vse_pipe.ranking.evaluation import Depths
    from vse_pipe.ranking.metrics.recall import Truth
    from vse_pipe.ranking.scores import Scores
    from vse_pipe.ranking.trial import Trial, Tuned, run_both

    torch.set_num_threads(1)
    spent = [time.process_time()]
    params = EvaluateParams(memory=memory, resamples=0)
    files = InputFiles(*(folder / name for name in FILES[:2]), caption_images=folder / FILES[2])
    given = inputs.read(files, params, torch.device("cpu"))
    images, captions, owners = given.ranked.images[:queries], given.ranked.captions, given.ranked.caption_images
    read = status("VmHWM")
    spent.append(time.process_time())
    # Captions of other images are queries without a correct item.
    some = owners < queries
    starts = np.concatenate([[0], some.cumsum()])
    truths = [Truth.by_image(np.arange(queries), owners), Truth(starts, owners[some], queries)]
    scores = Scores.of(images, captions, given.similarity, memory=memory, sets=0)
    sides = (scores, scores.transposed())
    trials = [Trial(side, Bank(side, True), truth) for side, truth in zip(sides, truths, strict=True)]
    tuned = Tuned(criteria.parse(inference, {}), {})
    run_both([tuned, tuned], trials, params.ties, Depths())
    spent.append(time.process_time())
    found = {"read": spent[1] - spent[0], "rank": spent[2] - spent[1], "read_mib": read, "mib": status("VmHWM")}
    json.dump(found, sys.stdout)


def sliced(folder: Path, inference: str, queries: int, memory: int) -> dict:
    command = [sys.executable, "-m", "tests.benchmarks.million", "--at", str(folder), "--memory", str(memory)]
    command += ["--one", str(queries), "--inference", inference]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", type=Path, required=True)
    for name, default in [("items", 1_000_000), ("dim", 256), ("topics", 1000), ("memory", 5000)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--noise", type=float, default=2.5)
    parser.add_argument("--inference", nargs="+", default=["nns", "csls"])
    parser.add_argument("--slices", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.at, options.inference[0], options.one, options.memory)
        return
    if not all((options.at / name).is_file() for name in FILES):
        write(options.at, options.items, options.dim, options.topics, options.noise)
    for inference in options.inference:
        found = [sliced(options.at, inference, queries, options.memory) for queries in options.slices]
        for queries, each in zip(options.slices, found, strict=True):
            sys.stdout.write(
                f"{inference:6}{queries:8} images: {each['rank']:8.1f} s, {each['mib']:6.0f} MiB; "
                f"read in {each['read']:.1f} s, {each['read_mib']:.0f} MiB\n"
            )
        slope = (
            np.polyfit(options.slices, [each["rank"] for each in found], 1)[0]
            if len(found) > 1
            else found[0]["rank"] / options.slices[0]
        )
        items = len(np.load(options.at / FILES[2], mmap_mode="r"))
        sys.stdout.write(
            f"{inference:6} all {items} each way: {(slope * items + found[0]['read']) / 3600:.1f} h of one processor\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
