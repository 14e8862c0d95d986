"""Help of every command: examples that the command takes, and lines that fill the terminal and no more."""

import shlex
from itertools import pairwise

import pytest
import typer

from vse_pipe.cli import app
from vse_pipe.commands._help import EXAMPLES, WIDEST

GROUP = typer.main.get_command(app)


def test_every_command_has_one_to_three_examples():
    assert set(EXAMPLES) == set(GROUP.commands)
    assert {name: len(lines) for name, lines in EXAMPLES.items() if not 1 <= len(lines) <= 3} == {}


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_a_call_that_the_command_takes(example):
    program, *arguments = shlex.split(example)
    assert program == "vse-pipe"
    context = GROUP.make_context(program, arguments)
    name, command, rest = GROUP.resolve_command(context, [*context._protected_args, *context.args])
    assert example in EXAMPLES[name]
    command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["", *EXAMPLES])
def test_lines_fill_the_terminal(call, monkeypatch, name, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = call(*filter(None, [name]), "--help")
    assert status == 0
    assert "╭" not in out
    lines = out.split("\nExamples:")[0].splitlines()
    assert [line for line in lines if len(line) > min(columns, WIDEST)] == []
    start = next(place for place, line in enumerate(lines) if line.endswith(":") and line[:1] not in (" ", ""))
    told = lines[2:start]
    # A line that ends early would have room for the first word of the next one.
    early = [one for one, after in pairwise(told) if after and one and _fits(one, after, columns)]
    assert early == []
    examples = out.partition("Examples:\n")[2].splitlines()
    assert [line.strip() for line in examples] == list(EXAMPLES.get(name, ()))


def _fits(line: str, after: str, columns: int) -> bool:
    return len(line) + 1 + len(after.split()[0]) < columns - 2


def test_panels_have_a_heading_of_their_own(call):
    out = call("evaluate", "--help")[1]
    headings = [line for line in out.splitlines() if line.endswith(":") and line[:1] not in (" ", "")]
    assert headings == ["Options:", "Vectors of your own:", "Examples:"]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("train", "-S", "loss.hal.gamma=5"), "vse-pipe -S loss.hal.gamma=5 train ..."),
        (("train", "--run", "hal", "-Sseed=2"), "vse-pipe -Sseed=2 train ..."),
        (("train", "--set=seed=2"), "vse-pipe --set=seed=2 train ..."),
        (("train", "-S"), "vse-pipe -S KEY=VALUE train ..."),
        (("evaluate", "--quiet"), "vse-pipe --quiet evaluate ..."),
    ],
)
def test_an_option_of_vse_pipe_behind_the_command_is_said_to_stand_before(call, arguments, shown):
    flag = shown.split()[1][:2] if shown.startswith("vse-pipe -S") else shown.split()[1].partition("=")[0]
    assert call(*arguments) == (2, "", f"error: {flag} stands before the command: {shown}\n")


def test_what_stands_behind_two_dashes_is_no_option(call):
    assert "no params.yaml" in call("search", "--", "-S")[2]
