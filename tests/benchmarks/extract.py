"""``python -m tests.benchmarks.extract memory``: peak memory of an extraction of 10,000 and of 40,000 images of 32 pixels,
each in a process of its own. ``python -m tests.benchmarks.extract again``: seconds of the whole command for 100,000 images
whose features are there, and of the same when all shards are there and have to be put together (2048 numbers an image).

Images are hard links to a few files under names of their own. Three minutes on two idle cores, and 2 GB of disk for ``again``.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIZES = (10_000, 40_000)
_PICTURES = 16
PARAMS = """
seed: 1
grid: {inferences: [nns]}
datasets: {tiny: {format: shapes, source: raw}}
features: {small: {dataset: tiny, backbone: random_filters, image_size: 32, stride: 8, filters: FILTERS}}
texts: {}
noises: {}
runs: {}
train: {}
evaluate: {}
report: {}
"""


def make(folder: Path, images: int, filters: int) -> None:
    """A prepared data set of ``images`` in ``folder``, which becomes the current one."""
    from tests.extract import project

    os.chdir(folder)
    names = project.pictures(Path("kinds"), _PICTURES, (32, 32))
    (folder / "raw").mkdir()
    linked = [f"{number:06d}.png" for number in range(images)]
    for number, name in enumerate(linked):
        os.link(folder / "kinds" / names[number % _PICTURES], folder / "raw" / name)
    project.prepared(Path("raw"), linked, digests=[""] * images)
    Path("params.yaml").write_text(PARAMS.replace("FILTERS", str(filters)))


def one(images: int) -> None:
    """Print seconds and peak MiB of an extraction in this process."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), images, 32)
        # Everything up to here is the data set's; what a small extraction needs is in both sizes.
        from vse_pipe.extract import stage
        from vse_pipe.project.params.load import load

        params = load(Path("params.yaml"))
        started = time.monotonic()
        stage.extract(params, "small", "cpu")
        seconds = time.monotonic() - started
        os.chdir("/")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{seconds} {peak}\n")


def memory() -> None:
    peaks = []
    for images in SIZES:
        command = [sys.executable, "-m", "tests.benchmarks.extract", "memory", "--one", str(images)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        seconds, peak = map(float, done.stdout.split())
        peaks.append(peak)
        sys.stdout.write(f"{images:8} images  {seconds:7.1f} s  {peak:7.0f} MiB\n")
        sys.stdout.flush()
    sys.stdout.write(f"{SIZES[1]} against {SIZES[0]}: {100 * (peaks[1] / peaks[0] - 1):+.1f} %\n")


def again(images: int) -> None:
    """Shards full of random numbers, written as an extraction would: what is measured never looks at an image."""
    import torch

    from tests.extract import project
    from vse_pipe.extract.job import plan
    from vse_pipe.extract.networks import Output
    from vse_pipe.extract.shards import Shard, Shards
    from vse_pipe.project.params.load import load

    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), images, 1024)
        job = plan(load(Path("params.yaml")).features["small"], 1, torch.device("cpu"))
        shards, random = Shards(project.OUT, job.shards_digest), np.random.default_rng(0)
        for number in range(job.count):
            rows = random.standard_normal((len(job.ids(number)), 2048), dtype=np.float32)
            shards.write(number, Shard(Output(rows)), job.manifest(number))
        command = [str(Path(sys.executable).parent / "vse-pipe"), "extract", "--features", "small"]
        code = {**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}/pipeline:{Path(__file__).parents[2]}"}
        for what in ["shards that are put together", *["features that are there"] * 3]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            started = time.monotonic()
            subprocess.run([*command, "--device", "cpu"], check=True, capture_output=True, env=code)
            seconds, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            sys.stdout.write(f"{images} images, {what:28}  {seconds:6.2f} s, {spent:5.2f} s of processor time\n")
        size = json.loads((project.OUT / "meta.json").read_text())["shape"]
        sys.stdout.write(f"features.npy: {size}, float32\n")
        os.chdir("/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["memory", "again"])
    parser.add_argument("--images", type=int, default=100_000, help="of again")
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one)
    elif options.what == "memory":
        memory()
    else:
        again(options.images)


if __name__ == "__main__":
    main()
