"""``python -m tests.benchmarks.size``: seconds and memory of a criterion as the sets grow, each size in its own process.

Prints a row a size and the exponent of the fit ``seconds = a (N x M)^b``. ``--largest 100000`` adds one more size, with
five captions an image; expect the better part of an hour for it on two cores. ``--device cuda`` measures there.
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import time

import numpy as np
import torch

from tests.benchmarks import devices

SIZES = (2500, 5000, 10_000, 20_000)


def one(images: int, dim: int, inference: str, memory: int, device: torch.device) -> None:
    """Print seconds and peak MiB of this process."""
    from tests.benchmarks.evaluate import OPEN, embeddings, product
    from vse_pipe.evaluate.measure import Inputs, measure
    from vse_pipe.project.params.schema import EvaluateParams
    from vse_pipe.ranking import criteria
    from vse_pipe.ranking.bank import BankSource

    split = embeddings(images, 5 * images, dim, device)
    inputs = Inputs(split, BankSource("test"), None, BankSource("test"), product, {})
    started = time.monotonic()
    for _ in measure(inputs, [criteria.parse(inference, OPEN)], EvaluateParams(resamples=0, memory=memory)):
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{time.monotonic() - started} {peak}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--inference", default="csls")
    parser.add_argument("--memory", type=int, default=2048, help="evaluate.memory in MiB")
    devices.add(parser)
    parser.add_argument("--largest", type=int, default=None)
    parser.add_argument("--one", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.dim, options.inference, options.memory, options.device)
        return
    sizes = [*SIZES, *([options.largest] if options.largest else [])]
    measured = []
    for images in sizes:
        command = [sys.executable, "-m", "tests.benchmarks.size", "--one", str(images), "--dim", str(options.dim)]
        command += ["--inference", options.inference, "--memory", str(options.memory), "--device", str(options.device)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        seconds, peak = map(float, done.stdout.split())
        measured.append((5 * images * images, seconds))
        sys.stdout.write(f"{images:8} x {5 * images:8}  {seconds:9.1f} s  {peak:8.0f} MiB\n")
        sys.stdout.flush()
    pairs, seconds = zip(*measured, strict=True)
    slope, intercept = np.polyfit(np.log(pairs), np.log(seconds), 1)
    at_full = math.exp(intercept) * (100_000 * 500_000) ** slope
    sys.stdout.write(f"seconds = {math.exp(intercept):.3g} (N x M)^{slope:.2f}; 100,000 x 500,000: {at_full:.0f} s\n")


if __name__ == "__main__":
    main()
