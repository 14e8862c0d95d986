"""The place of every artefact, relative to the project root: the folder that holds params.yaml."""

import contextlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from vse_pipe.core.console import say
from vse_pipe.core.errors import DATA, UsageError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.core.locks import claim

PARAMS = Path("params.yaml")
REPORTS = Path("reports")
CODE = DATA / "code"
SOURCES = DATA / "sources"
SEEN = DATA / "seen"
# A project without code names the version of its package here.
REQUIREMENTS = Path("requirements.txt")
# The lock of the report lies beside this path, under data/, where git and DVC ignore locks.
REPORT = DATA / "report"


def prepared(dataset: str) -> Path:
    return DATA / "prepare" / dataset


def extracted(dataset: str, features: str) -> Path:
    return DATA / "extract" / dataset / features


def injected(dataset: str, noise: str) -> Path:
    return DATA / "inject" / dataset / noise


def trained(run: str) -> Path:
    return DATA / "train" / run


def run_of_folder(folder: Path) -> str:
    """The run of a folder in data/<stage>/: its name, or ``max/1`` for a seed."""
    parts = folder.parts
    return "/".join(parts[-2:]) if parts[-4:-3] == (DATA.name,) and parts[-1].isdecimal() else folder.name


def embedded(run: str) -> Path:
    return DATA / "embed" / run


def evaluations(run: str) -> Path:
    return DATA / "evaluate" / run


def evaluated(run: str, inference: str) -> Path:
    return evaluations(run) / inference


def audited(run: str) -> Path:
    return DATA / "audit" / run


def audited_pairs(dataset: str, noise: str | None) -> Path:
    """Findings about a data set; noise: None for the pairs as they are prepared."""
    return DATA / "audit" / "datasets" / dataset / (noise or "prepared")


def localized(run: str) -> Path:
    return DATA / "localize" / run


def code(stage: str) -> Path:
    """The list of modules of a stage, a dependency in DVC; stage: ``train@max``."""
    return CODE / stage.replace("@", "/")


def find_root(start: Path) -> Path:
    """The nearest folder with a params.yaml, upwards. Raises UsageError without one."""
    if root := root_around(start):
        return root
    raise UsageError(f"no params.yaml in {start.resolve()} or above it: run this inside a vse-pipe project")


def root_around(start: Path) -> Path | None:
    """As ``find_root``; None outside of a project."""
    folders = [start.resolve(), *start.resolve().parents]
    return next((folder for folder in folders if (folder / PARAMS).is_file()), None)


def seed_run(run: str, seed: int) -> str:
    """The name ``max/1`` of a seed of a run. No name in params.yaml has a slash."""
    return f"{run}/{seed}"


def run_entry(run: str) -> str:
    """The name in params.yaml: ``max`` of ``max/1`` and of ``max``."""
    return run.partition("/")[0]


def run_seed(run: str) -> int | None:
    """The seed of ``max/1``; None for a run without seeds."""
    digits = run.partition("/")[2]
    return int(digits) if digits else None


def expand_groups(groups: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> list[str]:
    return [model for name in names for model in groups.get(name, (name,))]


@contextlib.contextmanager
def claimed_seeds(folder: Path, besides: Collection[str] = ()) -> Iterator[None]:
    """Holds the locks of all seeds in the folder of a run, but for those named. Raises LockedError
    where a process still writes one."""
    names = {path.name.partition(".")[0] for path in folder.glob("[0-9]*") if path.is_dir()} - set(besides)
    with contextlib.ExitStack() as locks:
        for name in sorted(names):
            locks.enter_context(claim(folder / name))
        yield


def remove_other_seeds(folder: Path, seed_paths: Collection[Path]) -> None:
    """Removes the files of former seeds, and of the run without seeds, from the folder of a run
    with seeds, and logs it.

    seed_paths: folders of its seeds. Raises as ``claimed_seeds``.
    """
    seeds = {path.name for path in seed_paths}
    with claim(folder), claimed_seeds(folder, seeds):
        for path in sorted(folder.iterdir()):
            name = path.name.partition(".")[0]
            if name and name not in seeds and path.suffix != ".lock":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                say(f"{path}: removed, it is of none of the run's seeds")


def timing_file(out: Path) -> Path:
    """The file of seconds, beside the output, whose bytes are equal after every run."""
    return out.with_name(out.name + ".timing.json")


def record_seconds(out: Path, seconds: float) -> None:
    """Seconds of the call that has finished ``out``."""
    write_json(timing_file(out), {"seconds": round(seconds, 3)})


def recorded_seconds(out: Path) -> float | None:
    """Seconds that ``out`` took; None where it was not made in this project."""
    path = timing_file(out)
    return read_json(path)["seconds"] if path.is_file() else None
