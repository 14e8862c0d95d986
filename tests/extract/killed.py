"""Run as a program: kill one extraction at each change it makes on disk, or at a drawn moment, then let another go on.

A process of its own, because children are forked from it: torch is imported once and has not started threads yet.
Prints one JSON line a run: {"folder", "at", "killed", "resumed"}: what the child was about to do, wait statuses of both children.
"""

import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

from tests.extract import project
from tests.faults import graph  # noqa: F401
from vse_pipe.extract import networks, stage  # noqa: F401

NEVER = -1


def child(folder: Path, kill_at: int, after: float | None = None) -> int:
    """Extract in ``folder``, dead by SIGKILL at the ``kill_at``-th change or ``after`` seconds. Gives the wait status."""
    if pid := os.fork():
        if after is not None:
            time.sleep(after)
            os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]
    status = 1
    try:
        os.chdir(folder)
        if kill_at != NEVER:
            _kill_at(kill_at)
        stage.extract(project.params("random_filters"), "small", "cpu")
        status = 0
    finally:
        os._exit(status)


def _kill_at(number: int) -> None:
    """An audit hook sees whatever takes its name or loses it, before it happens."""
    seen = [0]

    def hook(event: str, arguments: tuple) -> None:
        if event not in ("os.rename", "os.remove", "os.rmdir"):
            return
        name = Path(os.fsdecode(arguments[0])).name
        # What whole_file wrote has its new name when its folder is removed; removing changes nothing.
        if "small.timing" in name or (event == "os.rmdir" and name.endswith(".tmp")):
            return
        seen[0] += 1
        if seen[0] == number:
            known = re.sub(r"-.*", "", name)
            Path("at").write_text(f"{event} {known}")
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def main(root: Path, rounds: int, before: int) -> None:
    """before: of how many pictures there are features already."""
    torch.set_num_threads(1)
    begun = root / "begun"
    begun.mkdir()
    os.chdir(begun)
    names = project.pictures(Path("raw"), 9)
    if before:
        project.prepared(Path("raw"), names[-before:])
        assert child(begun, NEVER) == 0
    project.prepared(Path("raw"), names)
    for number in itertools.count(1):
        if one(begun, root / f"{number:02d}", number) != signal.SIGKILL:
            break
    drawn = random.Random(7)
    for extra in range(rounds):
        one(begun, root / f"drawn-{extra:02d}", NEVER, drawn.uniform(0.05, 0.4))


def one(begun: Path, folder: Path, kill_at: int, after: float | None = None) -> int:
    shutil.copytree(begun, folder)
    os.chdir(folder)
    status = child(folder, kill_at, after)
    at = Path("at").read_text() if Path("at").is_file() else ""
    found = {"folder": folder.name, "at": at, "killed": status, "resumed": child(folder, NEVER)}
    print(json.dumps(found), flush=True)
    return status


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
