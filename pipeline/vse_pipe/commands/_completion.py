"""What the shell completes: names from params.yaml, family members, overlays. Neither pydantic nor torch is imported.

A project that cannot be read completes to nothing: the command itself says what is wrong with it.
"""

from collections.abc import Callable
from pathlib import Path

_OVERLAYS = Path(__file__).parents[1] / "project" / "params" / "overlays"


def section(*names: str) -> Callable[[str], list[str]]:
    """Completes to the keys of these sections of params.yaml."""

    def complete(incomplete: str) -> list[str]:
        return _starting([key for name in names for key in _params().get(name) or {}], incomplete)

    return complete


def losses(incomplete: str) -> list[str]:
    """The losses that some run has."""
    runs = _params().get("runs") or {}
    return _starting([run.get("loss", "") for run in runs.values() if isinstance(run, dict)], incomplete)


def backbones(incomplete: str) -> list[str]:
    from vse_pipe.project.registry import BACKBONES

    return _starting(BACKBONES.names(), incomplete)


def inferences(incomplete: str) -> list[str]:
    """The criteria of grid.inferences and every member; after a comma the next one."""
    from vse_pipe.project.registry import INFERENCES

    given, comma, last = incomplete.rpartition(",")
    grid = (_params().get("grid") or {}).get("inferences") or []
    taken = given.split(",")
    names = [name for name in [*grid, *INFERENCES.names()] if name not in taken]
    return [f"{given}{comma}{name}" for name in _starting(names, last)]


def exportable(incomplete: str) -> list[str]:
    """export takes what is one number an item."""
    return _starting(["nns", "is", "csls", "nnn", "dual_is", "sinkhorn"], incomplete)


def targets(incomplete: str) -> list[str]:
    names = ["clip-retrieval", "faiss", "hnswlib", "lancedb", "npy", "parquet", "trec", "usearch"]
    return _starting(names, incomplete)


def overlays(incomplete: str) -> list[str]:
    """The packaged ones, and YAML files of the folder."""
    files = [str(path) for path in Path().glob("*.yaml") if path.name not in ("params.yaml", "dvc.yaml")]
    return _starting([*(path.stem for path in _OVERLAYS.glob("*.yaml")), *files], incomplete)


def papers(incomplete: str) -> list[str]:
    folder = Path(__file__).parents[1] / "papers"
    names = [path.stem for path in folder.glob("*.yaml")] + [path.parent.name for path in folder.glob("*/paper.yaml")]
    return _starting([name for name in names if not name.startswith("_")], incomplete)


def devices(incomplete: str) -> list[str]:
    return _starting(["auto", "cpu", "cuda"], incomplete)


def _starting(names: list[str], incomplete: str) -> list[str]:
    return sorted({str(name) for name in names if name and str(name).startswith(incomplete)})


def _params() -> dict:
    from vse_pipe.core.errors import PipelineError
    from vse_pipe.project.params.document import read_document
    from vse_pipe.project.paths import PARAMS, find_root

    try:
        found = read_document(find_root(Path.cwd()) / PARAMS)
    except (PipelineError, OSError):
        return {}
    return {name: values for name, values in found.items() if isinstance(values, dict)}
