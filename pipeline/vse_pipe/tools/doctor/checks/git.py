"""git, which DVC and every comparison with an earlier state need."""

import shutil
import subprocess

from vse_pipe.project.paths import root_around
from vse_pipe.tools.doctor.line import FAIL, OK, WARN, Line


def look() -> list[Line]:
    if shutil.which("git") is None:
        return [Line(FAIL, "git", "not found", "install git")]
    version = _asked("--version") or "git"
    if root_around() is None:
        return [Line(WARN, "project", "no params.yaml here or above", "run this inside a vse-pipe project")]
    if _asked("rev-parse", "--git-dir") is None:
        return [Line(FAIL, "git", f"{version}; this project is no git repository", "run `git init`")]
    commit = _asked("rev-parse", "--short", "HEAD")
    if commit is None:
        remedy = "commit the project: `dvc exp run` and `vse-pipe compare --base` start from a commit"
        return [Line(WARN, "git", f"{version}; the repository has no commit", remedy)]
    return [Line(OK, "git", f"{version}, at commit {commit}")]


def _asked(*arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=root_around(), check=False)  # noqa: S603, S607 (our own words)
    return done.stdout.strip() if done.returncode == 0 else None
