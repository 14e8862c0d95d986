"""A workflow of GitHub read as data, and its shell steps run as a runner runs them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from tests.small_project import Project

FOLDER = ROOT / ".github" / "workflows"
# Minutes of downloads or tests: that make knows them is all that is checked.
HEAVY = ("make setup", "make lint", "make test", "make acceptance")


def load(name: str) -> dict:
    return YAML(typ="safe").load((FOLDER / name).read_text(encoding="utf-8"))


def steps(workflow: dict) -> Iterator[dict]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


class Runner:
    """Runs the steps of ``workflow`` in a project, each with what the ones before it left in its environment."""

    def __init__(self, project: Project, temporary: Path, base: str) -> None:
        temporary.mkdir()
        self.project = project
        self.files = {
            name: temporary / name.lower()
            for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        }
        for file in self.files.values():
            file.touch()
        self.environment = {name: str(file) for name, file in self.files.items()}
        self.environment |= {"CI": "true", "RUNNER_TEMP": str(temporary), "GITHUB_BASE_REF": base}
        self.environment["GITHUB_WORKSPACE"] = str(project.root)

    @property
    def summary(self) -> str:
        return self.files["GITHUB_STEP_SUMMARY"].read_text()

    def run(self, workflow: dict) -> dict[str, subprocess.CompletedProcess]:
        """What each step that is not HEAVY gave, by its name; the first that fails is the last."""
        done = {}
        for step in steps(workflow):
            if "run" not in step or step["run"].strip() in HEAVY:
                continue
            done[step["name"]] = result = self._step(step["run"], workflow.get("env", {}))
            if result.returncode:
                break
        return done

    def _step(self, script: str, environment: dict[str, str]) -> subprocess.CompletedProcess:
        added = dict(line.split("=", 1) for line in self.files["GITHUB_ENV"].read_text().splitlines())
        path = [*self.files["GITHUB_PATH"].read_text().split(), self.project.environment["PATH"]]
        # As GitHub runs `shell: bash`.
        command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
        settings = self.environment | environment | added | {"PATH": ":".join(path)}
        return self.project.call(*command, **settings)
