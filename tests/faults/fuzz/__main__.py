"""``python -m tests.faults.fuzz --rounds 400 --seed 1``: damaged files of every format, read in children.

Prints a line a reader: how many inputs, how many were refused with an error of the package's own, accepted and unchanged,
accepted and changed, ended in a traceback (any other exception, or a signal) or hung for longer than 20 seconds, and the
highest memory of a child. Then a line for each kind of traceback with its input, which ``--only READER --number N``
reads alone, in this process. Exit status 1 on tracebacks, hangs, more than 1 GB, and changes in files with a digest.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import torch
from PIL import Image

from tests.faults.fuzz import child, given, own
from tests.faults.fuzz.child import CHANGED, HANG, OUTCOMES, REFUSED, TRACEBACK, UNCHANGED, Reader
from tests.rules.sources import ROOT
from vse_pipe.project.params.load import load

MOST_MB = 1024
# A fork of the warm process costs as much as several inputs.
_BATCH = 60


@dataclass
class Found:
    """Of one reader: how often each outcome came, the highest memory, and the first input of each kind of fault."""

    reader: Reader
    outcomes: Counter = field(default_factory=Counter)
    megabytes: float = 0.0
    first: dict[str, int] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        silent = self.reader.digested and self.outcomes[CHANGED]
        return bool(silent or self.outcomes[TRACEBACK] or self.outcomes[HANG] or self.megabytes > MOST_MB)

    def line(self) -> str:
        counts = "".join(f"{self.outcomes[name]:>10}" for name in OUTCOMES)
        return f"{self.reader.name:<44}{self.outcomes.total():>7}{counts}{self.megabytes:>6.0f} {'WRONG' if self.wrong else 'ok'}"


def fuzz(readers: list[Reader], rounds: int, seed: int, folders: list[Path]) -> Iterator[Found]:
    """As many children at once as there are folders, which hold the same files. ``rounds``: inputs a reader."""
    for reader in readers:
        found, original = Found(reader), (folders[0] / reader.file).read_bytes()
        known = _known(reader, folders[0])
        waiting = [list(range(first, min(first + _BATCH, rounds))) for first in range(0, rounds, _BATCH)]
        free, running = list(folders), {}
        while waiting or running:
            if waiting and free:
                folder, numbers = free.pop(), waiting.pop(0)
                work = partial(child.batch, reader, original, seed, numbers, known)
                running[child.forked(folder, work)] = folder, numbers
                continue
            pid, status, used = os.wait4(-1, 0)
            folder, numbers = running.pop(pid)
            free.append(folder)
            if rest := _count(found, folder, numbers, status, used.ru_maxrss / 1024):
                waiting.append(rest)
        for folder in folders:
            (folder / reader.file).write_bytes(original)
        yield found


def _known(reader: Reader, folder: Path) -> str:
    """The digest of what the file holds as it is: read by a child too, so that no library starts a thread here."""
    _made(folder, lambda: Path("known").write_text(child.digest(reader.read())))
    return (folder / "known").read_text()


def _made(folder: Path, work: Callable[[], object]) -> None:
    if os.waitpid(child.forked(folder, work, seconds=600), 0)[1]:
        raise RuntimeError((folder / child.TRACES / "child").read_text())


def _count(found: Found, folder: Path, numbers: list[int], status: int, megabytes: float) -> list[int]:
    """Enter what became of ``numbers``; those that the child did not come to."""
    outcomes = [OUTCOMES[place] for place in (folder / child.LOG).read_bytes()]
    if len(outcomes) < len(numbers):
        outcomes.append(child.ended(status))
    found.megabytes = max(found.megabytes, megabytes)
    for number, outcome in zip(numbers, outcomes, strict=False):
        found.outcomes[outcome] += 1
        trace = folder / child.TRACES / str(number)
        if trace.is_file():
            lines = trace.read_text(encoding="utf-8").splitlines()
            places = [line.rpartition("/vse_pipe/")[2] for line in lines if "/vse_pipe/" in line]
            outcome = f"{lines[-1].partition(':')[0]} in {places[-1] if places else lines[-2]}"
            trace.unlink()
        if outcome not in (REFUSED, UNCHANGED, CHANGED) or (outcome == CHANGED and found.reader.digested):
            found.first.setdefault(outcome, number)
    return numbers[len(outcomes) :]


@contextlib.contextmanager
def made(count: int) -> Iterator[tuple[list[Reader], list[Path]]]:
    """Every reader, and ``count`` folders with the files of all of them, which a child made."""
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    # What every child of some readers would load anew.
    Image.init()
    load(ROOT / "params.yaml")
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        first = Path(name) / "0"
        first.mkdir()
        _made(first, lambda: [own.make(), given.make()])
        os.chdir(first)
        readers = [*own.readers(), *given.readers()]
        yield readers, [first, *(shutil.copytree(first, Path(name) / str(n)) for n in range(1, count))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=400, help="inputs a reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="readers with this in their name")
    parser.add_argument("--number", type=int, help="read this input alone, in this process")
    options = parser.parse_args()
    print(f"{'reader':<44}{'inputs':>7}" + "".join(f"{name:>10}" for name in OUTCOMES) + "    MB")
    with made(os.cpu_count() or 1) as (readers, folders):
        chosen = [reader for reader in readers if options.only in reader.name]
        if options.number is not None:
            for reader in chosen:
                content = child.given(reader, reader.file.read_bytes(), options.seed, options.number)
                print(reader.name, child.outcome(reader, content, ""))
            return 0
        all_found = []
        for found in fuzz(chosen, options.rounds, options.seed, folders):
            print(found.line(), flush=True)
            all_found.append(found)
    for found in all_found:
        for fault, number in found.first.items():
            print(f"{found.reader.name} --number {number}: {fault}")
    inputs, wrong = sum(one.outcomes.total() for one in all_found), sum(one.wrong for one in all_found)
    print(f"{inputs} inputs, {len(all_found)} readers, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
