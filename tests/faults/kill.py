"""SIGKILL somewhere in any stage, then the same command again.

A stage's output is removed, its command begins and is killed at a drawn moment; called again, all files of the project
must have the bytes that they had, with nothing left that only a writer needs. Prints a line a round.
"""

import random
import shutil
import time
from pathlib import Path

from tests.faults import warm
from tests.prepare import _data
from tests.toy_project import PARAMS, write_params

_OUT = {
    "prepare": "data/prepare/toy",
    "extract": "data/extract/toy",
    "inject": "data/inject/toy",
    "train": "data/train/sum",
    "embed": "data/embed/sum",
    "evaluate": "data/evaluate/sum",
    "report": "reports",
}
_PICTURES = 40
_OF_A_WRITER = (".tmp", ".partial")
# What tells seconds, and what is empty of meaning without a process.
_NOT_COMPARED = (".timing.json", ".lock", "/timings.html")


def write(folder: Path) -> None:
    """Pictures, their captions in a CSV file, and params.yaml."""
    names = [f"{number}.png" for number in range(_PICTURES)]
    _data.pictures(folder / "raw", names)
    splits = ("train", "train", "val", "test")
    rows = [f"{name},picture {n} of {c},{splits[n % 4]}\n" for n, name in enumerate(names) for c in "ab"]
    (folder / "raw/t.csv").write_text("image,caption,split\n" + "".join(rows))
    features = {"dataset": "toy", "backbone": "random_filters", "image_size": 16, "batch_size": 4, "shard_size": 4}
    write_params(
        folder,
        datasets={"toy": {"format": "csv", "source": "raw/t.csv"}},
        features={"plain": features},
        train={**PARAMS["train"], "epochs": 6},
    )


def make(folder: Path) -> dict[str, float]:
    """A small project with every stage done; the seconds that each of them took."""
    write(folder)
    warm.run(folder, "--help")  # what all of them share is imported with the first
    seconds = {}
    for stage in _OUT:
        start = time.monotonic()
        warm.run(folder, stage)
        seconds[stage] = time.monotonic() - start
    return seconds


def files(folder: Path) -> dict[str, bytes]:
    """What lies below data/ and reports/, by name: what is compared, and what nobody but a writer needs."""
    found = [path for top in ("data", "reports") for path in (folder / top).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found if not str(path).endswith(_NOT_COMPARED)}


def killed(folder: Path, stage: str, after: float) -> str:
    """What became of it, for the line of the round."""
    shutil.rmtree(folder / _OUT[stage])
    process = warm.started(folder, stage)
    time.sleep(after)
    process.kill()
    process.join()
    left = sum(path.name.endswith(_OF_A_WRITER) for path in (folder / _OUT[stage]).parent.rglob("*"))
    warm.run(folder, stage)
    return "ended before" if process.exitcode == 0 else f"left {left} unfinished"


def rounds(folder: Path, count: int, seed: int) -> int:
    """How many rounds ended with other files."""
    seconds, drawn, wrong = make(folder), random.Random(seed), 0
    whole = files(folder)
    for number in range(count):
        stage = list(_OUT)[number % len(_OUT)]
        after = drawn.uniform(0, seconds[stage])
        became = killed(folder, stage, after)
        now = files(folder)
        differs = sorted(name for name in now.keys() | whole.keys() if now.get(name) != whole.get(name))
        wrong += bool(differs)
        print(f"{number + 1:3} {stage:9} {after:5.2f} s {became:20} {', '.join(differs) or 'identical'}", flush=True)
    return wrong
