"""A small project in which everything has run once, and copies of it to walk through the pages in."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs import runner
from tests.docs.runner import Project
from tests.rules.sources import ROOT

_RAW = lambda root: runner.karpathy(root / "PATH" / "flickr8k")  # noqa: E731
_FLICKR8K = [_RAW, lambda root: runner.precomp(root / "PATH" / "flickr8k_precomp")]
# Files that the reader of a page has.
BROUGHT = {
    "README.md": [runner.own_csv],
    "docs/recipes.md": [runner.own_csv],
    "text": [runner.embeddings, runner.evaluations],
    "docs/evaluate.md": [runner.embeddings, runner.evaluations],
    "reports/flickr8k.md": [*_FLICKR8K, lambda root: runner.word_vectors(root / "WORD2VEC.npz")],
    "reports/noise.md": _FLICKR8K,
    "reports/hal.md": _FLICKR8K,
    "docs/search.md": [lambda root: runner.picture(root / "photo.jpg")],
    "docs/data.md": [runner.own_csv, lambda root: runner.overlay(root / "mine.yaml")],
}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """The project with two runs, computed, in DVC's cache and committed."""
    root = tmp_path_factory.mktemp("documented") / "project"
    listing = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.check_output(listing, cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and name not in ("dvc.lock", "reports/metrics.json"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, root / name)
    params = runner.read_yaml(root / "params.yaml")
    del params["runs"]["max"]
    params["grid"]["inferences"] = ["nns", "csls", "is+rgm"]
    with (root / "params.yaml").open("w") as file:
        runner.YAML().dump(params, file)
    runner.shrink(root / "params.yaml")
    project = Project(root)
    project.run("git init -q -b main && git config user.email a@example.org && git config user.name a")
    if "html_template" in (root / ".dvc/config").read_text():
        project.run("vse-pipe plots")  # as `make setup` does
    for stage in ("sources", "prepare", "extract", "inject", "train", "embed", "evaluate", "report"):
        project.run(f"vse-pipe {stage}")
    project.run("dvc commit --force && git add -A && git commit -qm start")
    return root


@pytest.fixture(scope="module")
def copies(prepared, tmp_path_factory):
    """A function from a name to a fresh copy of the project."""

    def copy(name: str) -> Project:
        root = tmp_path_factory.mktemp("copy") / "project"
        shutil.copytree(prepared, root, symlinks=True)
        (root / ".venv").symlink_to(Path(runner.sys.prefix))
        for bring in BROUGHT.get(name, []):
            bring(root)
        return Project(root)

    return copy
