"""A clone of this repository's working tree with a pipeline small enough for a test, and commands run in it."""

import os
import shutil
import subprocess
import sys
from functools import reduce
from operator import getitem
from pathlib import Path

from ruamel.yaml import YAML

from tests.acceptance import forked as forks
from tests.rules.sources import ROOT

# Left out of a clone: what belongs to the pipeline of full size, and what no stage reads.
_LEFT_OUT = ("dvc.lock", "reports/metrics.json")
QUICK = {
    # Other tests run beside it, and threads that wait for each other on a busy core take four times the work.
    "OMP_NUM_THREADS": "1",
}


class Project:
    """Commands run as a user would, inside the clone. forked: those of vse-pipe and dvc in forks of a process that has imported
    what they import."""

    def __init__(self, root: Path, forked: bool = False) -> None:
        self.root = root
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DVC_NO_ANALYTICS": "1",
            **QUICK,
        }
        if forked:
            self.environment["PATH"] = f"{forks.folder(**QUICK)}:{self.environment['PATH']}"

    def call(self, *command: str, **environment: str) -> subprocess.CompletedProcess:
        """stdout and stderr apart, whatever the status."""
        told = {"capture_output": True, "text": True}
        return subprocess.run(command, cwd=self.root, env=self.environment | environment, **told)

    def run(self, *command: str, status: int = 0) -> str:
        """stdout, then stderr."""
        done = self.call(*command)
        output = done.stdout + done.stderr
        assert done.returncode == status, f"{command} ended with {done.returncode}\n{output[-3000:]}"
        return output

    def named(self) -> None:
        """With an author of commits."""
        self.run("git", "config", "user.email", "test@example.org")
        self.run("git", "config", "user.name", "test")

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-qm", message)


def clone(root: Path, values: list[str]) -> Project:
    """The working tree in ``root``, committed on main, with ``values`` (``a.b=value``, null takes an entry out) in
    params.yaml; no dvc.lock and no results."""
    root.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/") and name not in _LEFT_OUT:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
    copy_compiled(root)
    set_params(root / "params.yaml", values)
    made = Project(root, forked=True)
    made.run("git", "init", "-q", "-b", "main")
    made.named()
    made.commit("start")
    return made


def copy_compiled(root: Path) -> None:
    """Byte code of this tree's modules, for copies with the same times below ``root``: seconds saved. And
    Vega for the pages, of which the times do not matter."""
    for suffix in ("pyc", "bundle"):
        for path in (ROOT / "pipeline/vse_pipe").rglob(f"__pycache__/*.{suffix}"):
            copy = root / path.relative_to(ROOT)
            if copy.parent.parent.is_dir():
                copy.parent.mkdir(exist_ok=True)
                shutil.copy2(path, copy)


def set_params(params: Path, values: list[str]) -> None:
    """Write ``a.b=value`` into a YAML file, comments kept; null takes the entry out."""
    editor = YAML()
    content = editor.load(params.read_text())
    for text in values:
        address, _, value = text.partition("=")
        *parents, last = address.split(".")
        section = reduce(getitem, parents, content)
        parsed = YAML(typ="safe").load(value)
        if parsed is None:
            del section[last]
        else:
            section[last] = parsed
    with params.open("w") as file:
        editor.dump(content, file)
