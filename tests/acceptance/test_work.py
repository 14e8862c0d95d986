"""Of the stages that DVC calls again those work of which own code has changed; the others return at once."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.rules.sources import ROOT
from tests.small_project import Project, set_params

pytestmark = pytest.mark.acceptance

TINY = [
    *["datasets.shapes.train=20", "datasets.shapes.val=6", "datasets.shapes.test=6"],
    *["train.epochs=1", "train.embed_size=16", "train.batch_size=16", "runs.hal=null"],
]
# What a call writes, by its arguments. Training goes first: it reads the digests that extraction writes.
CALLS = {
    "train --run sum": "data/train/sum",
    "train --run max": "data/train/max",
    "extract --features filters": "data/extract/shapes/filters",
    "extract --texts words": "data/extract/shapes/words",
}
# Files that entries of dvc.yaml cover by their folders, or other runs by their members, and no call above executes.
IDLE = (
    *("core/console.py", "core/errors.py", "artifacts/audit.py", "artifacts/evaluation.py", "train/losses/hal.py"),
    *("train/transport.py", "train/samplers/images.py", "ranking/matching.py", "ranking/hubness.py"),
    *("extract/backbones/timm.py", "extract/texts/tfidf.py"),
)
MEMBERS = {
    "train/losses/sum.py": "train --run sum",
    "extract/backbones/random_filters.py": "extract --features filters",
    "extract/texts/words.py": "extract --texts words",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    root = tmp_path_factory.mktemp("work")
    shutil.copytree(ROOT / "pipeline", root / "pipeline")
    shutil.copy(ROOT / "params.yaml", root)
    set_params(root / "params.yaml", TINY)
    made = Project(root, forked=True)
    made.environment["PYTHONPATH"] = str(root / "pipeline")
    for call in ("prepare", "inject", *reversed(CALLS)):
        assert "is up to date" not in made.run("vse-pipe", *call.split())
    return made


def _files(project: Project, folder: str) -> dict[Path, tuple[int, bytes]]:
    """When each was written last, and what it holds."""
    paths = sorted(path for path in (project.root / folder).rglob("*") if path.is_file())
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def _worked(project: Project, edited: Iterable[str]) -> set[str]:
    """The calls that did not return at once after a comment in these files; those that did have written nothing."""
    for name in edited:
        with (project.root / "pipeline/vse_pipe" / name).open("a") as file:
            file.write("\n# a comment\n")
    found = set()
    for call, folder in CALLS.items():
        before = _files(project, folder)
        if "is up to date" not in project.run("vse-pipe", *call.split()):
            found.add(call)
        assert (_files(project, folder) != before) == (call in found), call
    return found


def test_an_edit_elsewhere_makes_none_work_and_one_of_a_member_those_that_name_it(project):
    assert _worked(project, IDLE) == set()
    assert _worked(project, MEMBERS) == set(MEMBERS.values())
