"""``python -m tests.faults.fuzz --rounds 400 --seed 1``: damaged files of every format, each reader in a child.

Prints a line a reader. Exit status 1 on tracebacks, hangs of 20 seconds, more than 1 GB, and accepted changes in files
with a digest.
"""

import argparse
import contextlib
import sys
import tempfile

import pyarrow as pa
import torch
from PIL import Image

from tests.faults.fuzz import child, given, own
from tests.rules.sources import ROOT
from vse_pipe.project.params.load import load


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=400, help="inputs a reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="readers with this in their name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    # What every child of some readers would load anew.
    Image.init()
    load(ROOT / "params.yaml")
    wrong = 0
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        if problem := child.in_child(lambda: [own.make(), given.make()], seconds=600)[0]:
            raise RuntimeError(problem)
        for reader in [*own.readers(), *given.readers()]:
            if options.only in reader.name:
                problem = child.fault(reader, options.rounds, options.seed)
                wrong += bool(problem)
                print(f"{reader.name:<44} {problem or 'ok'}", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
