"""``python -m tests.golden FILE.npz ...``: our implementation on the inputs of each file against its stored outputs.

A kind is a function ``check_KIND`` of this package. The kind of a file is the longest one that its
name begins with. One line a file, ``ok|FAIL|unsupported NAME max_abs_error tolerance`` for the comparison that came
nearest to failing; exit status 1 unless every line is ok. A FAIL names the array on stderr.
"""

import sys
from pathlib import Path

from tests.golden import Result, Vectors, encoders, losses, ranking

_PREFIX = "check_"
KINDS = {
    name.removeprefix(_PREFIX): function
    for file in (encoders, losses, ranking)
    for name, function in vars(file).items()
    if name.startswith(_PREFIX)
}


def kind_of(name: str) -> str | None:
    """``contrastive_max_cosine`` for ``contrastive_max_cosine_m0.2``; None for an unknown kind."""
    return max((kind for kind in KINDS if name.startswith(kind)), key=len, default=None)


def check(path: Path) -> list[Result]:
    """A comparison for every stored output of a file of a known kind."""
    return KINDS[kind_of(path.stem)](Vectors(path))


def line(path: Path) -> tuple[str, bool]:
    if kind_of(path.stem) is None:
        return f"unsupported {path.stem} - -", False
    results = check(path)
    if not results:
        return f"FAIL {path.stem} nothing compared -", False
    failed = [result for result in results if not result[1] <= result[2]]
    for name, error, tolerance in failed:
        sys.stderr.write(f"{path.stem}: {name} differs by {error:.3g}, allowed {tolerance:.3g}\n")
    _, error, tolerance = max(results, key=lambda result: result[1] - result[2])
    return f"{'FAIL' if failed else 'ok'} {path.stem} {error:.3g} {tolerance:.3g}", not failed


def main(files: list[str]) -> int:
    if not files:
        sys.stderr.write("usage: python -m tests.golden FILE.npz ...\n")
        return 2
    good = True
    for file in files:
        text, passed = line(Path(file))
        sys.stdout.write(text + "\n")
        good &= passed
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
