"""The wheel in an empty environment, a project of one's own beside it, an upgrade, and what DVC and the commands make of them.

The tests of this file build on each other, in order.
"""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image
from ruamel.yaml import YAML

from tests.acceptance import forked
from tests.docs import pages
from tests.rules.sources import PACKAGE, ROOT
from tests.small_project import QUICK, Project, clone, copy_compiled, set_params

pytestmark = pytest.mark.acceptance

COLOURS = ["red", "green", "blue", "yellow", "black", "white", "orange", "purple"]
OVERLAY = """\
datasets: {mine: {format: csv, source: photos/captions.csv}}
features: {main: {dataset: mine, backbone: random_filters, filters: 8}}
texts: {words: {dataset: mine, method: words, min_count: 1}}
noises: {clean: {dataset: mine, protocol: image}}
runs:
  sum: {dataset: mine, features: main, texts: words, noise: clean, loss: sum, scheme: plain, similarity: cosine, text: gru, image: linear}
grid: {inferences: [nns]}
train: {epochs: 1, batch_size: 8, embed_size: 8}
text: {gru: {word_dim: 8}}
evaluate: {resamples: 20}
report: {examples: 2}
"""


def _ran(output: str) -> set[str]:
    return set(re.findall(r"Running stage '([^']+)'", output)) - {"sources"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built as for a release: from the source archive of a copy of the working tree, which the build leaves files in."""
    folder = tmp_path_factory.mktemp("wheel")
    source = clone(folder / "source", []).root
    archive = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", archive], cwd=source, check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, *folder.glob("*.tar.gz")], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_the_package_its_licence_and_what_an_index_shows(wheel):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "pipeline"], cwd=ROOT, capture_output=True, text=True
    )
    wanted = {name.removeprefix("pipeline/") for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert there == wanted
        template = "vse_pipe/tools/template/"
        assert archive.read(f"{template}params.yaml") == (ROOT / "params.yaml").read_bytes()
        assert "vse_pipe/py.typed" in there, "type checkers take no annotations from a package without it"
        about = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
        assert archive.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        metadata = message_from_bytes(archive.read(f"{about}/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {address.partition(", ")[0] for address in metadata.get_all("Project-URL")} >= {"Homepage", "Issues"}
    assert "Typing :: Typed" in metadata.get_all("Classifier")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The site-packages of an environment with the wheel; what it needs comes from the packages of the tests."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "-q"]
    subprocess.run([*command, "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)
    (packages,) = environment.glob("lib/*/site-packages")
    others = {str(Path(find_spec(name).origin).parents[1]) for name in ("dvc", "torch")}
    (packages / "others.pth").write_text("\n".join(others))
    for path in PACKAGE.rglob("*.py"):
        times = path.stat()
        os.utime(packages / path.relative_to(PACKAGE.parent), ns=(times.st_atime_ns, times.st_mtime_ns))
    copy_compiled(packages)
    return packages


def test_an_environment_with_the_wheel_imports_it_in_any_folder_and_ranks_as_the_readme_does(installed, tmp_path):
    programs = installed.parents[2] / "bin"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = {"cwd": tmp_path, "env": environment, "text": True}
    code = "import vse_pipe; print(vse_pipe.__file__)"
    assert subprocess.check_output([programs / "python", "-c", code], **options).startswith(str(installed))
    assert " prepare " in subprocess.check_output([programs / "vse-pipe", "--help"], **options)
    (shown,) = (block.text for block in pages.blocks((ROOT / "README.md").read_text()) if block.language == "python")
    assert subprocess.check_output([programs / "python", "-c", shown], **options).startswith("Ranking(csls: rsum ")


@pytest.fixture(scope="module")
def project(installed, tmp_path_factory) -> Project:
    """Made by the installed command, with a handful of pictures."""
    folder = tmp_path_factory.mktemp("home") / "my pictures"
    (folder.parent / "mine.yaml").write_text(OVERLAY)
    made = Project(folder.parent)
    made.environment["PATH"] = f"{installed.parents[2] / 'bin'}:{made.environment['PATH']}"
    made.environment.pop("PYTHONPATH", None)
    made.run("vse-pipe", "init", folder.name, "--overlay", "mine.yaml")
    made.root = folder
    # From here on the same package in forks, which need not import what it imports.
    made.environment |= {"PATH": f"{forked.folder(**QUICK)}:{made.environment['PATH']}", "PYTHONPATH": str(installed)}
    (folder / "photos").mkdir()
    rows = ["image,caption,split"]
    for number in range(32):
        name, colour = f"{number}.png", COLOURS[number % 8]
        Image.new("RGB", (32, 32), colour).save(folder / "photos" / name)
        rows.append(f"{name},a {colour} square,{'train' if number < 16 else 'val' if number < 24 else 'test'}")
    (folder / "photos" / "captions.csv").write_text("\n".join(rows) + "\n")
    made.named()
    made.commit("start")
    return made


@pytest.fixture(scope="module")
def first(project) -> str:
    return project.run("dvc", "repro")


def test_repro_runs_every_stage_to_the_report(project, installed, first):
    stages = {"code", "prepare@mine", "extract@main", "extract_texts@words", "inject@clean", "report"}
    assert _ran(first) == {*stages, "train@sum", "embed@sum", "evaluate@sum"}
    assert (project.root / "reports" / "index.html").is_file()
    assert "no problems" in project.run("vse-pipe", "check")


def test_a_run_more_is_the_only_one_that_trains(project, first):
    params = project.root / "params.yaml"
    loss_max = {**YAML(typ="safe").load(params.read_text())["runs"]["sum"], "loss": "max"}
    set_params(params, [f"runs.max={json.dumps(loss_max)}"])
    assert _ran(project.run("dvc", "repro", "train")) == {"code", "train@max"}


def test_an_upgrade_trains_again_what_it_changes(project, installed, first):
    module = installed / "vse_pipe" / "train" / "losses" / "max.py"
    module.write_text(module.read_text() + "\n# of the next version\n")
    stale = project.run("vse-pipe", "check", status=5)
    assert "data/train/max: stale: data/code/train/max changed since" in stale
    assert "data/train/sum" not in stale
    said = project.run("dvc", "repro", "train")
    assert _ran(said) == {"code", "train@max"}
    assert "train max: best epoch" in said
    assert "train sum" not in said
