"""Help of every command, and shell completion through the protocol that the installed bash script speaks."""

import resource
import shlex
import subprocess
import sys
from itertools import pairwise

import pytest
import typer

from tests.command_line import caller, output
from tests.commands.script import environment, run
from tests.toy_project import PARAMS, write_params
from vse_pipe.cli import app
from vse_pipe.commands import _help
from vse_pipe.commands._help import EXAMPLES, WIDEST
from vse_pipe.project.registry import INFERENCES
from vse_pipe.tools.export import TARGETS

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
    out, _ = output(call, *filter(None, [name]), "--help")
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


def test_panels_have_a_heading_of_their_own_and_two_dashes_end_the_options(call):
    out = call("evaluate", "--help")[1]
    headings = [line for line in out.splitlines() if line.endswith(":") and line[:1] not in (" ", "")]
    assert headings == ["Options:", "Vectors of your own:", "Examples:"]
    assert "no params.yaml" in call("search", "--", "-S")[2]


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


@pytest.fixture
def complete(tmp_path, monkeypatch, capsys):
    """A function of the words typed so far, the last of them incomplete, that gives what the shell would offer."""
    monkeypatch.chdir(tmp_path)
    runs = {"sum": PARAMS["runs"]["sum"], "hal": {**PARAMS["runs"]["sum"], "loss": "hal"}}
    both = {"both": {"first": "sum", "second": "hal"}}
    write_params(tmp_path, runs=runs, ensembles=both, grid={"inferences": ["nns", "is+rgm"]})
    call = caller(monkeypatch, capsys)

    def completed(*words: str) -> list[str]:
        monkeypatch.setenv("_VSE_PIPE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["vse-pipe", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        status, out, err = call()
        assert (status, err) == (0, "")
        return out.split()

    return completed


OFFERED = [
    (("doc",), ["doctor"]),
    (("train", "--run", ""), ["hal", "sum"]),
    (("train", "--run", "h"), ["hal"]),
    (("evaluate", "--run", ""), ["both", "hal", "sum"]),
    (("compare", ""), ["both", "hal", "sum"]),
    (("train", "--loss", ""), ["hal", "sum"]),
    (("prepare", "--dataset", ""), ["toy"]),
    (("extract", "--features", "p"), ["plain"]),
    (("extract", "--texts", ""), ["words"]),
    (("extract", "--backbone", "res"), ["resnet152"]),
    (("inject", "--noise", ""), ["clean", "half"]),
    (("evaluate", "--inference", "is"), ["is", "is+rgm"]),
    (("evaluate", "--inference", "nns,cs"), ["nns,csls"]),
    (("export", "--to", ""), ["clip-retrieval", "faiss", "npy", "parquet", "trec"]),
    (("export", "--inference", "n"), ["nnn", "nns"]),
    (("apply", "flickr8k_n"), ["flickr8k_noise"]),
    (("papers", "hal"), ["hal-aaai2020", "hal-rgm-emnlp"]),
    (("train", "--device", "c"), ["cpu", "cuda"]),
    (("-S", "train.epochs=2", "train", "--run", "s"), ["sum"]),
    (("train", "--dev"), ["--device"]),
]


@pytest.mark.parametrize(("words", "offered"), OFFERED, ids=[" ".join(words) for words, _ in OFFERED])
def test_what_is_offered(complete, words, offered):
    assert complete(*words) == offered


@pytest.mark.parametrize("text", ["runs: [", "runs: 3\n", None], ids=["no YAML", "no mapping", "no file"])
def test_a_project_that_cannot_be_read_offers_nothing(complete, tmp_path, text):
    (tmp_path / "params.yaml").unlink() if text is None else (tmp_path / "params.yaml").write_text(text)
    assert complete("train", "--run", "") == []


def test_an_overlay_may_be_a_file_and_export_offers_what_it_can_fold(complete, tmp_path):
    (tmp_path / "flow.yaml").write_text("", encoding="utf-8")
    assert complete("apply", "flow") == ["flow.yaml"]
    able = [name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias]
    assert _help.exportable("") == sorted(able)
    assert _help.targets("") == [name.replace("_", "-") for name in sorted(TARGETS)]


def test_it_is_quick_and_the_script_can_be_had(tmp_path):
    """Of a process of its own; pydantic and torch would each take longer than a person waits for a tab."""
    write_params(tmp_path)
    words = {"_VSE_PIPE_COMPLETE": "complete_bash", "COMP_WORDS": "vse-pipe train --run ", "COMP_CWORD": "3"}
    spent = []
    for _ in range(3):
        before = _children_s()
        assert run(cwd=tmp_path, **words) == (0, b"sum\n", b"")
        spent.append(_children_s() - before)
    # 0.25 s of processor time, which does not grow with what else the machine does as seconds on the wall would.
    assert min(spent) < 0.8, spent
    status, out, _ = run(cwd=tmp_path, _VSE_PIPE_COMPLETE="source_bash")
    assert status == 0
    assert b"_VSE_PIPE_COMPLETE=complete_bash" in out


def _children_s() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_completing_imports_nothing_heavy(tmp_path):
    write_params(tmp_path)
    code = (
        "import sys; from vse_pipe.commands import _help as c; c.section('runs')(''); c.inferences('');"
        "c.overlays(''); c.papers(''); c.targets(''); print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert "ruamel" in done.stdout
    assert not {"torch", "pydantic", "pandas", "numpy", "pyarrow", "dvc"} & set(done.stdout.split())
