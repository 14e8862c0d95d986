"""Where every artefact lies. Paths are relative to the project root: the folder that holds params.yaml."""

from pathlib import Path

from pipeline.core.errors import InputError, UsageError

PARAMS = Path("params.yaml")
DATA = Path("data")
REPORTS = Path("reports")
# What a lock of the report as a whole stands beside: under data/, where locks are left out of git and of DVC's view.
REPORT = DATA / "report"


def prepared(dataset: str) -> Path:
    return DATA / "prepare" / dataset


def extracted(dataset: str, features: str) -> Path:
    return DATA / "extract" / dataset / features


def injected(dataset: str, noise: str) -> Path:
    return DATA / "inject" / dataset / noise


def trained(run: str) -> Path:
    return DATA / "train" / run


def embedded(run: str) -> Path:
    return DATA / "embed" / run


def evaluations(run: str) -> Path:
    return DATA / "evaluate" / run


def evaluated(run: str, inference: str) -> Path:
    return evaluations(run) / inference


def audited(run: str) -> Path:
    return DATA / "audit" / run


def localized(run: str) -> Path:
    return DATA / "localize" / run


def searched(run: str) -> Path:
    return DATA / "search" / run


def find_root(start: Path) -> Path:
    """The nearest folder at or above ``start`` with a params.yaml. Raises UsageError when there is none."""
    for folder in [start.resolve(), *start.resolve().parents]:
        if (folder / PARAMS).is_file():
            return folder
    raise UsageError(f"no params.yaml in {start.resolve()} or above it: run this inside a vse-pipe project")


def root_around() -> Path | None:
    """Of the project around the working directory; None outside of any."""
    try:
        return find_root(Path.cwd())
    except UsageError:
        return None


def inside(root: Path, name: str, where: str) -> Path:
    """``root / name``, refused when it leaves ``root`` by an absolute name, by ``..`` or by a symbolic link.

    where: the file and row that named it, for the message. Raises InputError.
    """
    path = root / name
    try:
        outside = "\0" in name or not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; half a surrogate pair
        raise InputError(f"{where}: file {name!r} names no file ({error})") from error
    if outside:
        raise InputError(f"{where}: file {name!r} lies outside its root {root}; names must stay below it")
    return path
