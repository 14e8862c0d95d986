"""``python -m tests.benchmarks.workers --at FOLDER``: what a worker of engine ray takes, by ``engine.memory``.

``vse-pipe evaluate`` on the vectors of ``tests.benchmarks.scale evaluate`` with one worker, once for each of ``--memory``; those that
are missing are made. Printed is the most memory of the worker's own while it was there, in MiB: pages that it shares with the
processes of its node, the vectors among them, are not counted. Where that does not grow with ``engine.memory`` the work fits less.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks import scale
from tests.faults.kill_extract import workers_of


def own(process: int) -> int:
    """KiB that no other process has; 0 once it has ended."""
    try:
        found = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def most(command: list[str], folder: Path) -> float:
    """MiB of the largest worker."""
    program = Path(sys.executable).with_name("vse-pipe")
    running = subprocess.Popen([str(program), *command], cwd=folder, stdout=subprocess.DEVNULL)
    largest = 0
    while running.poll() is None:
        largest = max([largest, *map(own, workers_of(running.pid))])
        time.sleep(0.05)
    if running.returncode:
        raise SystemExit(running.returncode)
    return largest / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", type=Path, required=True)
    parser.add_argument("--items", type=int, default=25_000, help="captions")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--memory", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--inference", default="csls")
    options = parser.parse_args()
    folder = options.at / f"vectors-{options.items}"
    scale.vectors(folder, options.items, options.dim)
    for memory in options.memory:
        settings = ["-S", "evaluate.resamples=0", "-S", f"engine.memory={memory}"]
        command = [*settings, "evaluate", *scale.GIVEN, "--inference", options.inference, "--json", "--engine", "ray"]
        sys.stdout.write(f"engine.memory {memory:6}: {most(command, folder):8.0f} MiB of a worker's own\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
