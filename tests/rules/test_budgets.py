"""The size of the package and of its tests. Raising a number is a decision: one in, one out."""

import ast

import pytest
from typer.main import get_command

from tests.rules.sources import PACKAGE, ROOT, modules, tree
from vse_pipe.cli import app

# Lines of each room.
ROOMS = {
    "api": 1_100, "artifacts": 2_000, "audit": 1_950, "commands": 1_550, "core": 1_650, "embed": 450,
    "evaluate": 1_900, "export": 1_050, "extract": 3_700, "inject": 350, "localize": 400, "papers": 700,
    "pictures": 650, "prepare": 3_200, "project": 2_350, "ranking": 5_000, "report": 3_000, "search": 2_000,
    "tools": 1_300, "train": 7_000,
}  # fmt: skip
STATEMENTS, LONG_FILES, RAISES, TEST_LINES = 27_000, 12, 700, 42_000
LONG = 350
# Options of a command, and of the one that takes vectors in files.
OPTIONS, OPTIONS_OF_RANK = 12, 16


def _lines(path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def test_every_room_keeps_its_budget():
    rooms = {path.name for path in PACKAGE.iterdir() if any(path.rglob("*.py"))}  # else compiled files of a former room
    assert rooms == set(ROOMS)
    sizes = {room: sum(map(_lines, (PACKAGE / room).rglob("*.py"))) for room in ROOMS}
    assert {room: size for room, size in sizes.items() if size > ROOMS[room]} == {}


def test_statements_raises_long_files_and_tests_keep_theirs():
    nodes = [node for path in modules() for node in ast.walk(tree(path))]
    assert sum(isinstance(node, ast.stmt) for node in nodes) <= STATEMENTS
    assert sum(isinstance(node, ast.Raise) for node in nodes) <= RAISES
    assert sum(_lines(path) > LONG for path in modules()) <= LONG_FILES
    assert sum(map(_lines, (ROOT / "tests").rglob("*.py"))) <= TEST_LINES


@pytest.mark.parametrize("name", sorted(get_command(app).commands))
def test_a_command_takes_few_options(name):
    options = [param for param in get_command(app).commands[name].params if param.param_type_name == "option"]
    most = OPTIONS_OF_RANK if name == "rank" else OPTIONS
    assert len(options) <= most
