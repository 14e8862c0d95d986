"""The examples of the pages: YAML that loads, overlays that are parameters, data that the stages read."""

import re
import shutil

import pytest
from ruamel.yaml import YAML

from tests.docs import pages, standins
from tests.docs.runner import Project
from tests.rules.sources import ROOT
from vse_pipe.project.params.load import load
from vse_pipe.project.params.overlay import apply
from vse_pipe.project.params.schema import Root

YAMLS = {
    f"{pages.name(path)}:{block.line}": block
    for path in pages.PAGES
    for block in pages.blocks(path.read_text(encoding="utf-8"))
    if block.language == "yaml"
}
# Overlays that describe runs from the data set on.
WHOLE = {
    place: block
    for place, block in YAMLS.items()
    if re.search(r"^datasets:", block.text, re.MULTILINE) and "\nruns:" in block.text
}
DATA = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
# Formats of which a page cannot show every file.
PACKED = {
    "webdataset": standins.tar_shards,
    "parquet": standins.picture_rows,
    "entities": standins.entities,
    "folder": standins.photos,
}
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
    (tmp_path / "example.yaml").write_text(WHOLE[place].text)
    apply(tmp_path / "params.yaml", str(tmp_path / "example.yaml"), [])
    assert load(tmp_path / "params.yaml").runs


@pytest.mark.acceptance
@pytest.mark.parametrize("name", FORMATS)
def test_the_example_of_every_format_can_be_read(name, tmp_path):
    section = "## " + FORMATS[name]
    shutil.copy(ROOT / "params.yaml", tmp_path / "params.yaml")
    shutil.copytree(ROOT / "pipeline/vse_pipe/prepare/scenes", tmp_path / "pipeline/vse_pipe/prepare/scenes")
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
                standins.picture(folder / picture, number)
            if path.suffix in (".txt", ".tsv"):
                rows = path.parent / f"{path.stem.removesuffix('_caps')}_ims.npy"
                standins.features(rows, block.text.count("\n"), seed=len(file))
