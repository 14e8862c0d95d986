"""docs/extending.md carried out: the files it shows are written into a copy, and its commands run with that copy's code."""

import json
import subprocess
import sys

import pytest

from tests.docs import pages, runner
from tests.docs.pages import Block
from tests.rules.sources import ROOT

pytestmark = pytest.mark.acceptance

PAGE = ROOT / "docs/extending.md"
# One process for all commands: a start of each would take seconds.
_SCRIPT = """
import importlib, json, sys
from pathlib import Path
from vse_pipe.project import code
from tests.docs import runner
root = Path(sys.argv[1])
project = runner.Project(root)
for step in json.load(sys.stdin):
    if "file" in step:
        (root / step["file"]).parent.mkdir(parents=True, exist_ok=True)
        with (root / step["file"]).open("a" if step["adds"] else "w") as file:
            file.write(step["text"])
        importlib.invalidate_caches()
        sys.modules.pop(step["file"].removeprefix("pipeline/").removesuffix(".py").replace("/", "."), None)
        code._graph.cache_clear()  # a command of its own would see the file
    else:
        project.run(step["run"])
        print("ran", step["run"])
import vse_pipe
print("code of", Path(vse_pipe.__file__).parents[2])
"""


def test_a_loss_a_backbone_and_a_criterion_in_one_file_each(copies):
    project = copies("docs/extending.md")
    steps = []
    for step in pages.steps(PAGE):
        if isinstance(step, Block):
            text = "\n\n" * step.adds + step.text
            steps += [{"file": file, "text": text, "adds": step.adds} for file in step.files]
        else:
            steps.append({"run": step.shown})
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(project.root)],
        cwd=project.root,
        env=project.environment,
        input=json.dumps(steps),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"code of {project.root}" in done.stdout
    assert done.stdout.count("ran ") == sum("run" in step for step in steps) > 5
    metrics = json.loads((project.root / "data/evaluate/soft/nns/metrics.json").read_text())
    assert 0 < metrics["rsum"] <= 600
    assert (project.root / "data/train/colours/model.safetensors").is_file()
    manifest = json.loads((project.root / "centred" / "manifest.json").read_text())
    assert "centred" in json.dumps(manifest)


def test_every_family_of_the_page_is_a_family():
    files = [file for step in pages.steps(PAGE) if isinstance(step, Block) for file in step.files]
    folders = {file.rsplit("/", 1)[0] for file in files if file.endswith(".py")}
    assert folders == {
        "pipeline/vse_pipe/train/losses",
        "pipeline/vse_pipe/extract/backbones",
        "pipeline/vse_pipe/ranking/inference",
    }
    assert runner.read_yaml(ROOT / "params.yaml")["loss"].keys() & {"soft"} == set(), "the page must show a new name"
