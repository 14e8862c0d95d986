"""docs/architecture.md and every path that the documentation names, against the code."""

import ast
import re
import tomllib

from tests.docs import pages
from tests.rules.sources import PACKAGE, ROOT, tree

PAGE = ROOT / "docs" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_function_that_a_page_names_is_in_its_file():
    named = [
        (f"{pages.name(path)}:{line}", *found.groups())
        for path in pages.PAGES
        for line, span in pages.spans(path.read_text(encoding="utf-8"))
        if (found := re.fullmatch(r"((?:pipeline|tests)/[\w/]+\.py):([\w.]+)", span))
    ]
    assert sum(place.startswith("docs/architecture.md") for place, *_ in named) > 30
    absent = [f"{place}: {file}:{name}" for place, file, name in named if name not in _defined(file)]
    assert absent == []


def test_the_tree_has_every_room():
    block = next(one.text for one in pages.blocks(TEXT) if one.text.startswith("pipeline/"))
    rooms = re.findall(r"^  ([\w.]+)/? ", block, flags=re.M)
    there = [path.name for path in PACKAGE.iterdir() if not path.name.startswith("_")]
    assert sorted(rooms) == sorted(there)
    assert len(rooms) == 18


def test_the_floors_are_those_of_the_contract():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(one["layers"] for one in settings["contracts"] if one["type"] == "layers")
    drawn = next(one.text for one in pages.blocks(TEXT) if one.text.startswith("cli "))
    floors = [re.split(r", | \| ", floor.strip()) for floor in drawn.replace("\n", " ").split("→")]
    assert [sorted(floor) for floor in floors] == [sorted(layer.split(" | ")) for layer in layers]


def test_a_new_engineer_reads_it_in_five_minutes():
    assert len(TEXT.split()) < 1400


def _defined(file: str) -> set[str]:
    """Functions, classes and methods (``Class.method``) of a module; none where there is no such file."""
    if not (ROOT / file).is_file():
        return set()
    found = set()
    for node in tree(ROOT / file).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return found
