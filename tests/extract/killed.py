"""Run as a program: kill one extraction before each file appears in its folder, then let another go on.

A process of its own, because children are forked from it: torch is imported once and has not started threads yet.
Prints one JSON line a run: {"folder", "killed", "shards", "resumed"}: wait statuses of both children, shards in between.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch

from pipeline.extract import stage
from pipeline.extract.backbones import _torchvision  # noqa: F401 (imported once here, not in every child)
from tests.extract import project

NEVER = -1


def child(folder: Path, kill_before: int) -> int:
    """Extract in ``folder``, dead by SIGKILL before the ``kill_before``-th file. Gives the wait status."""
    if pid := os.fork():
        return os.waitpid(pid, 0)[1]
    status = 1
    try:
        os.chdir(folder)
        _kill_before(kill_before)
        stage.extract(project.params(), "small", "cpu")
        status = 0
    finally:
        os._exit(status)


def _kill_before(number: int) -> None:
    rename, done = Path.replace, []

    def replace(self: Path, target: Path) -> Path:
        if project.OUT in target.parents:
            done.append(target)
            if len(done) == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    Path.replace = replace


def main(root: Path) -> None:
    torch.set_num_threads(1)
    status, number = signal.SIGKILL, 0
    while status == signal.SIGKILL:
        number += 1
        folder = root / f"{number:02d}"
        folder.mkdir()
        os.chdir(folder)
        project.prepared(Path("raw"), project.pictures(Path("raw"), 9))
        status = child(folder, number)
        left = sorted(path.name[:6] for path in folder.glob("data/extract/tiny/small/shards/*/*.safetensors"))
        resumed = child(folder, NEVER)
        print(json.dumps({"folder": folder.name, "killed": status, "shards": left, "resumed": resumed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
