"""``python -m tests.benchmarks.processes``: steps of one process and of two on the same batches, with the same threads together.

Model and data are those of ``tests.benchmarks.train``. Both sides run in turn, ``--rounds`` times; the median step of each counts.
``--device cuda`` gives each process a GPU.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch

from tests.benchmarks import devices, train
from tests.benchmarks.train import seconds, show
from vse_pipe.core import processes
from vse_pipe.train import processes as engine_processes
from vse_pipe.train.optimise import optimizer_for, step

_WARM = 2


def steps(folder: Path, options: argparse.Namespace, out: Path, device: torch.device) -> None:
    """Write the seconds of each step to ``out``."""
    data = train.pairs(folder / str(processes.rank()), options.images, options.vocabulary, zipf=False)
    scheme = train.scheme(data, options, options.precision, device)
    optimizer = optimizer_for(scheme.setting.model, scheme.setting.train)
    order = np.random.default_rng(0).permutation(len(data))
    batches = [order[start : start + options.batch] for start in range(0, len(order), options.batch)]
    scheme.start(1)
    scheme.model.train()
    work = batches[: options.steps + _WARM]
    found = [seconds(lambda chosen=chosen: step(scheme, optimizer, data.batch(chosen))) for chosen in work]
    if processes.is_first():
        out.write_text(json.dumps(found[_WARM:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {"batch": 128, "images": 3000, "vocabulary": 10_000, "steps": 8, "threads": 2, "rounds": 3, "processes": 2}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    devices.add(parser)
    parser.add_argument("--loss", default="max")
    parser.add_argument("--scheme", default="plain")
    parser.add_argument("--precision", default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found: dict[int, list[float]] = {1: [], options.processes: []}
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = Path(temporary), Path(temporary) / "seconds.json"
        for place in range(options.processes):
            (folder / str(place)).mkdir()
        for _ in range(options.rounds):
            for count, times in found.items():
                engine_processes.run(steps, (folder, options, out), count, options.device, "benchmark")
                times += json.loads(out.read_text())
    one = statistics.median(found[1])
    for count, times in found.items():
        median = statistics.median(times)
        show(
            f"{count} processes, {max(1, options.threads // count)} threads each: {1000 * median:.0f} ms a step, "
            f"{options.batch / median:.0f} pairs/s, {one / median:.2f} x one"
        )


if __name__ == "__main__":
    main()
