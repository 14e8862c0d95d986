"""Commands of the documentation, run in a project: those of vse-pipe in this process, since a start takes seconds, and what is behind
a pipe or DVC in forks."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

from dvc.repo import Repo
from ruamel.yaml import YAML

from tests.acceptance import forked
from tests.small_project import QUICK
from vse_pipe import cli

# What every `apply` and the project itself are reduced to.
SIZES = {"train": 60, "val": 20, "test": 20}
PROPOSALS = 6
BATCH = 16
TRAINING = {"epochs": 1, "batch_size": BATCH, "embed_size": 16}


class Project:
    """A folder with a project, in which commands run as a user would run them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DVC_NO_ANALYTICS": "1",
            "PYTHONPATH": f"{root}/pipeline:{root}",
        }

    def run(self, command: str, status: int = 0) -> str:
        """What the command prints. Fails where it ends with another status."""
        if command == "@stages":
            return self.stages()
        several = command.split("; ")
        if len(several) > 1 and all(map(_is_ours, several)):
            return "".join(self.run(one, status) for one in several)
        if _is_ours(command):
            ended, output = vse_pipe(shlex.split(command)[1:], self.root)
        else:
            asks_its_shell = command.endswith("-completion")
            path = (
                self.environment["PATH"] if asks_its_shell else f"{forked.folder(**QUICK)}:{self.environment['PATH']}"
            )
            # Two commands: for the last one bash would make way, and the shell that --show-completion asks for be gone.
            script = f"{re.sub(r'^python -m (?=tests[.])', 'module ', command)}\nexit $?"
            environment = self.environment | {"PATH": path}
            done = subprocess.run(
                ["bash", "-c", script], cwd=self.root, env=environment, capture_output=True, text=True
            )
            ended, output = done.returncode, done.stdout + done.stderr
        assert ended == status, f"{command} ended with {ended}\n{output[-3000:]}"
        if re.search(r"^vse-pipe .*\bapply\b|--apply$", command):
            shrink(self.root / "params.yaml")
        return output

    def stages(self) -> str:
        """Every command that `dvc repro` has for the stages up to inject, and those of the last run."""
        repo = Repo(str(self.root))
        try:
            commands = {stage.name: stage.cmd for stage in repo.index.stages}
        finally:
            repo.close()
        last = list(read_yaml(self.root / "params.yaml")["runs"])[-1]
        for stage in ("prepare", "extract", "extract_texts", "inject", "train", "embed", "evaluate"):
            of_stage = [(name, cmd) for name, cmd in commands.items() if name.startswith(f"{stage}@")]
            assert of_stage, f"dvc.yaml has no stage {stage}"
            for name, cmd in of_stage:
                if stage in ("train", "embed", "evaluate") and name.partition("@")[2] != last:
                    continue
                self.run(re.sub(r"^(\w+=\S* )+", "", cmd))
        return ""


def vse_pipe(arguments: list[str], root: Path) -> tuple[int, str]:
    """(exit status, stdout and stderr together) of the command line, called in this process in ``root``."""
    output = io.StringIO()
    before = Path.cwd()
    os.chdir(root)
    try:
        with (
            mock.patch.object(sys, "argv", ["vse-pipe", *arguments]),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
        ):
            try:
                cli.main()
                status = 0
            except SystemExit as stop:
                status = int(stop.code or 0)
    finally:
        os.chdir(before)
    return status, output.getvalue()


def shrink(params: Path) -> None:
    """Few images and regions, one epoch, narrow models: what is computed stays, how much of it does not."""
    content = read_yaml(params)
    for node in content["datasets"].values():
        if node["format"] == "shapes":
            node.update(SIZES)
        if "count" in node:
            node["count"] = PROPOSALS
    for node in content["features"].values():
        node["batch_size"] = BATCH  # the last batch of any collection is filled up to it
    for run in content["runs"].values():
        if "train" in run:
            run["train"].update({key: TRAINING[key] for key in TRAINING if key in run["train"]})
    content["train"].update(TRAINING)
    content["train"]["stop_when_dead"] = False  # a handful of pairs may be learned in an epoch, or stand still
    content["evaluate"]["resamples"] = 4
    content["report"]["examples"] = 2
    with params.open("w", encoding="utf-8") as file:
        YAML().dump(content, file)


def read_yaml(path: Path) -> dict:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def _is_ours(command: str) -> bool:
    plain = re.sub(r"'[^']*'", "", command)
    return command.startswith("vse-pipe ") and not re.search(r"[|>;$~]|-completion$", plain)
