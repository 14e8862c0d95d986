"""Every command that the documentation shows is run: page by page from top to bottom, others in code spans one by one.

Examples in YAML load, data of every format can be read, and docs/extending.md is carried out in a copy with that copy's code.
"""

import json
import re
import shutil
import subprocess
import sys

import pytest
from PIL import Image
from ruamel.yaml import YAML

from tests.docs import pages, rewritten, runner
from tests.docs.pages import Block, Command
from tests.docs.runner import Project
from tests.rules.sources import ROOT
from vse_pipe.project.params.load import load
from vse_pipe.project.params.overlay import apply
from vse_pipe.project.params.schema import Root

# Pages, or parts below a heading, that a test of their own walks through.
ELSEWHERE = {
    "docs/cleaning.md": {"": "tests/acceptance/test_cleaning.py"},
    "docs/extending.md": {"": "tests/docs/test_commands.py"},  # below
    "docs/experiments.md": {"Experiments of DVC": "tests/acceptance/test_workflows.py"},
    "docs/recipes.md": {"Fine-tuning a pretrained pair": "tests/train/test_tuning.py"},
    "docs/search.md": {"In the browser": "tests/search/serve/test_documented.py"},
}


def _walk(page: str) -> list[Block | Command]:
    elsewhere = ELSEWHERE.get(page, {})
    return [] if "" in elsewhere else pages.steps(ROOT / page, elsewhere)


WALKED = [name for name in map(pages.name, pages.PAGES) if any(isinstance(step, Command) for step in _walk(name))]
STEPS = [step for page in WALKED for step in _walk(page)]
IN_BLOCKS = {rewritten.to_run(step) for step in STEPS if isinstance(step, Command)}
# What runs anyway when a page is walked, or for another line, need not run again.
INLINE = {rewritten.to_run(command): command for path in pages.PAGES for command in pages.inline_commands(path)}
INLINE = {run: command for run, command in INLINE.items() if run not in IN_BLOCKS}


@pytest.mark.acceptance
@pytest.mark.parametrize("page", WALKED)
def test_the_commands_of_a_page_in_their_order(page, copies):
    project = copies(page)
    for step in _walk(page):
        if isinstance(step, Block):
            for file in step.files:
                (project.root / file).parent.mkdir(parents=True, exist_ok=True)
                (project.root / file).write_text(step.text, encoding="utf-8")
        else:
            project.run(rewritten.to_run(step))


@pytest.fixture(scope="module")
def shared(copies):
    return copies("text")


@pytest.mark.acceptance
@pytest.mark.parametrize("command", INLINE.values(), ids=str)
def test_a_command_in_a_line_of_text(command, shared):
    shared.run("git checkout -q .")
    shared.run(rewritten.to_run(command))


DOOR = [
    block.text
    for block in pages.blocks((ROOT / "docs/python.md").read_text(encoding="utf-8"))
    if block.language == "python"
]


def test_python_on_arrays_runs(monkeypatch):
    names: dict = {}
    for text in DOOR[:3]:
        exec(text, names)
    assert names["result"].metrics()["text_to_image"]["queries"] == 64
    assert len(names["matched"]) == len(names["table"]) == 1000


@pytest.mark.acceptance
def test_python_opens_a_run_of_the_project(copies):
    root = copies("docs/python.md").root
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (64, 64), "red").save(root / name)
    opens = next(text for text in DOOR if "vp.load(" in text)
    code = "import vse_pipe as vp\n" + opens + "print(model.similarity(pictures, texts).shape)"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("(2, 1)\n"), done.stderr


def test_every_rule_is_needed_and_a_page_walked_elsewhere_is_read_there():
    shown = [step for path in pages.PAGES for step in pages.steps(path) if isinstance(step, Command)]
    shown += [command for path in pages.PAGES for command in pages.inline_commands(path)]
    used = [rewritten.of(command) for command in shown]
    for rule in rewritten.TABLE:
        assert rule in used, f"no command needs the rule for {rule.shown}"
        assert rule.why
    for page, parts in ELSEWHERE.items():
        for heading, test in parts.items():
            assert page.rpartition("/")[2] in (ROOT / test).read_text(encoding="utf-8"), page
            assert pages.section((ROOT / page).read_text(encoding="utf-8"), heading) or not heading, heading


YAMLS = {
    f"{pages.name(path)}:{block.line}": block
    for path in pages.PAGES
    for block in pages.blocks(path.read_text(encoding="utf-8"))
    if block.language == "yaml"
}
# Overlays that describe runs from the data set on.
WHOLE = [one for one, block in YAMLS.items() if re.search(r"(?ms)^datasets:.*^runs:|^runs:.*^datasets:", block.text)]
DATA = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
# Formats of which a page cannot show every file.
PACKED = {"webdataset": runner.tar_shards, "parquet": runner.picture_rows}
PACKED |= {"entities": runner.entities, "folder": runner.photos, "coco": runner.annotations}
INTRODUCTION, *SECTIONS = DATA.split("\n## ")
FORMATS = {section.split("\n")[0]: section for section in SECTIONS}


def test_every_example_is_yaml_whose_sections_exist():
    known = {"replace", *Root.model_fields}
    wrong = {}
    for place, block in YAMLS.items():
        content = YAML(typ="safe").load(block.text)
        assert isinstance(content, dict), place
        another = {"blocks", "on", "claims"} & set(content) or block.text.startswith("# grid.yaml")
        if not another and set(content) - known:
            wrong[place] = set(content) - known
    assert wrong == {}


@pytest.mark.parametrize("place", WHOLE)
def test_every_example_of_whole_runs_loads(place, tmp_path):
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    (tmp_path / "example.yaml").write_text(YAMLS[place].text)
    apply(tmp_path / "params.yaml", str(tmp_path / "example.yaml"), [])
    assert load(tmp_path / "params.yaml").runs


@pytest.mark.acceptance
@pytest.mark.parametrize("name", FORMATS)
def test_the_example_of_every_format_can_be_read(name, tmp_path):
    section = "## " + FORMATS[name]
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    code = tmp_path / "pipeline/vse_pipe/prepare/scene.py"
    code.parent.mkdir(parents=True)
    shutil.copy(ROOT / "pipeline/vse_pipe/prepare/scene.py", code)
    with (tmp_path / "mine.yaml").open("w") as file:
        YAML().dump(_first_yaml(INTRODUCTION) | _first_yaml(section), file)
    _write_data(section, tmp_path)
    if name in PACKED:
        PACKED[name](tmp_path / "data/raw/mine")
    project = Project(tmp_path)
    project.run("vse-pipe apply mine.yaml")
    assert "mine" in project.run("vse-pipe prepare")
    assert (tmp_path / "data/prepare/mine/captions.parquet").is_file()
    project.run("vse-pipe inject")


def _first_yaml(text: str) -> dict:
    """The first overlay in a part of data.md: the whole one at its beginning, lines in place of others, or none."""
    overlays = [block.text for block in pages.blocks(text) if block.language == "yaml"]
    return YAML(typ="safe").load(overlays[0]) if overlays else {}


def _write_data(section, root):
    """The files that the section shows, and beside them pictures of the names in them, or rows of features."""
    for block in pages.blocks(section):
        for file in block.files:
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            folder = path.parent / "images" if path.suffix == ".json" else path.parent
            for number, picture in enumerate(re.findall(r"[\w/]+\.jpg", block.text)):
                runner.picture(folder / picture, number)
            if path.suffix in (".txt", ".tsv"):
                rows = path.parent / f"{path.stem.removesuffix('_caps')}_ims.npy"
                runner.features(rows, block.text.count("\n"), seed=len(file))


PAGE = ROOT / "docs/extending.md"
# One process for all commands: a start of each would take seconds.
_SCRIPT = """
import importlib, json, sys
from pathlib import Path
from vse_pipe.project import code, registry
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
        # A command of its own would see the file.
        code._graph.cache_clear()
        for family in vars(registry).values():
            vars(family).pop("_names", None) if isinstance(family, registry.Family) else None
    else:
        project.run(step["run"])
        print("ran", step["run"])
import vse_pipe
print("code of", Path(vse_pipe.__file__).parents[2])
"""


@pytest.mark.acceptance
def test_a_loss_a_backbone_and_a_criterion_in_one_file_each(copies):
    project = copies("docs/extending.md")
    steps = []
    for step in pages.steps(PAGE):
        if isinstance(step, Block):
            text = "\n\n" * step.adds + step.text
            steps += [{"file": file, "text": text, "adds": step.adds} for file in step.files]
        else:
            steps.append({"run": step.shown})
    around = {"cwd": project.root, "env": project.environment, "input": json.dumps(steps)}
    command = [sys.executable, "-c", _SCRIPT, str(project.root)]
    done = subprocess.run(command, **around, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"code of {project.root}" in done.stdout
    assert done.stdout.count("ran ") == sum("run" in step for step in steps) > 5
    metrics = json.loads((project.root / "data/evaluate/soft/nns/metrics.json").read_text())
    assert 0 < metrics["rsum"] <= 600
    assert (project.root / "data/train/colours/model.safetensors").is_file()
    manifest = json.loads((project.root / "centred" / "manifest.json").read_text())
    assert "centred" in json.dumps(manifest)
    metrics = json.loads((project.root / "data/evaluate/sum/dual_softmax/metrics.json").read_text())
    assert metrics["parameters"]["text_to_image"] == {"beta": 50.0}
    assert (project.root / "data/prepare/sidecars/captions.parquet").is_file()


@pytest.mark.acceptance
def test_every_family_of_the_page_is_a_family():
    files = [file for step in pages.steps(PAGE) if isinstance(step, Block) for file in step.files]
    folders = {file.rsplit("/", 1)[0] for file in files if re.match("pipeline/.*py$", file)}
    assert folders == {
        f"pipeline/vse_pipe/{one}"
        for one in ("train/losses", "extract/backbones", "ranking/inference", "prepare/formats")
    }
    assert runner.read_yaml(ROOT / "params.yaml")["loss"].keys() & {"soft"} == set(), "the page must show a new name"
