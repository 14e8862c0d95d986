"""Progress for people and for logs, levels, and terminals of every kind."""

import io
import sys
from collections import Counter

import pytest
from rich.console import Console

from tests.command_line import caller
from tests.toy_project import write_params
from vse_pipe.core import console


@pytest.fixture(autouse=True)
def _normal():
    yield
    console.set_level(console.NORMAL)


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves by ten seconds an item."""
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])

    def items(count: int, step: float = 10.0):
        for number in range(count):
            now[0] += step
            yield number

    return items


def test_what_is_printed_is_one_line():
    assert console.plain("a dog\nruns\tfast\u2028now") == "a dog runs fast now"
    assert console.plain("\x1b[31mred\x07\u00a0\x9b2J\u202e") == "\ufffd[31mred\ufffd \ufffd2J\ufffd"
    joined = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f467"  # Persian; man, joiner, girl
    assert console.plain(joined) == joined


def test_plain_lines_come_now_and_then_and_end_with_one_unless_work_is_short(clock, capsys):
    assert list(console.track(clock(5), 5, "work")) == [0, 1, 2, 3, 4]
    assert capsys.readouterr().err.splitlines() == [
        "work: 2/5, 0.1/s, 30 s left",
        "work: 4/5, 0.1/s, 10 s left",
        "work: 5/5, 0.1/s, 0 s left",
    ]
    list(console.track(clock(5, 1.0), 5, "quick"))
    assert capsys.readouterr().err == ""
    list(console.track(clock(1, 20.0), 1, "one"))
    assert capsys.readouterr().err == "one: 1/1, 0.1/s, 0 s left\n"
    assert list(console.track(clock(0), 0, "nothing")) == []
    assert capsys.readouterr().err == ""


def test_brackets_are_text_and_quiet_lines_come_never(clock, capsys):
    console.say("[red]a [/b] log line")
    assert capsys.readouterr().err == "[red]a [/b] log line\n"
    console.set_level(console.QUIET)
    assert list(console.track(clock(5), 5, "work")) == [0, 1, 2, 3, 4]
    console.say("a log line")
    console.warn("a warning")
    assert capsys.readouterr().err == "warning: a warning\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "watched"),
    [({}, True), ({"DVC_STAGE": "train@hal"}, False), ({"CI": "true"}, False), ({"TERM": "dumb"}, False)],
    ids=["terminal", "dvc", "ci", "dumb"],
)
def test_a_bar_is_for_people_alone(monkeypatch, variables, watched):
    for name in ("DVC_STAGE", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console, "stderr", Console(file=terminal, force_terminal=True, width=80))
    assert console.watched() is watched
    assert list(console.track(range(3), 3, "work [of brackets]")) == [0, 1, 2]
    assert ("work [of brackets]" in terminal.getvalue()) is watched
    if watched:
        assert "100%" in terminal.getvalue()


def test_quiet_and_verbose(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    call = caller(monkeypatch, capsys)
    assert call("-q", "-v", "papers") == (2, "", "error: --quiet and --verbose exclude each other\n")
    status, _, err = call("-v", "inject", "--noise", "clean")
    assert status == 3
    assert "Traceback" in err
    assert "error: data/prepare/toy/captions.parquet does not exist" in err
    (tmp_path / "toy.csv").write_text("image,caption\n", encoding="utf-8")
    monkeypatch.setattr("vse_pipe.prepare.stage.prepare", lambda *given: console.say("a log line") or tmp_path)
    assert call("-q", "prepare", "--json") == (0, f'{{\n  "outputs": [\n    "{tmp_path}"\n  ]\n}}\n', "")
    assert call("prepare") == (0, "", "a log line\n")


@pytest.fixture
def wide_table(monkeypatch, capsys):
    """A function from a terminal's width to the lines of a table with more figures than it has room for."""

    def lines(width: int) -> list[str]:
        monkeypatch.setattr(console.stdout, "width", width)
        table = console.ruled(title="[title] of all", caption="a sentence about the figures")
        table.add_column("name")
        for k in range(16):
            table.add_column(f"r@{k}", justify="right", no_wrap=True)
        for name in ("a_run_with_a_long_name", "[red] :dog: run"):
            table.add_row(name, *(f"{100 + k / 10:.1f}" for k in range(16)))
        console.show(table)
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
def test_a_table_loses_no_figure_and_no_name_at_any_width(wide_table, width):
    lines = wide_table(width)
    words = " ".join(lines).split()
    for k in range(16):
        assert (words.count(f"r@{k}"), words.count(f"{100 + k / 10:.1f}")) == (1, 2)
    letters = Counter("".join(lines))
    assert not Counter("[title] of all" + "a_run_with_a_long_name" + "[red] :dog: run" + "a sentence") - letters
