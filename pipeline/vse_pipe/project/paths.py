"""Where every artefact lies. Paths are relative to the project root: the folder that holds params.yaml."""

import hashlib
from pathlib import Path

from vse_pipe.core.errors import UsageError

PARAMS = Path("params.yaml")
DATA = Path("data")
REPORTS = Path("reports")
CODE = DATA / "code"
SOURCES = DATA / "sources"
# Of a project without code: the version of the package that it runs.
REQUIREMENTS = Path("requirements.txt")
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


def code(stage: str) -> Path:
    """The list of modules that decide what a stage of dvc.yaml writes, for DVC to watch; stage: ``train@max``."""
    return CODE / stage.replace("@", "/")


def sources(stage: str) -> Path:
    """The list of files from outside of the pipeline that a stage of dvc.yaml reads, for DVC to watch; stage: ``prepare@mine``."""
    return SOURCES / stage.replace("@", "/")


def searched(run: str) -> Path:
    return DATA / "search" / run


def seen(source: Path) -> Path:
    """What was read of the pictures of a folder, as params.yaml names that."""
    return DATA / "seen" / hashlib.sha256(str(source).encode()).hexdigest()[:16]


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
