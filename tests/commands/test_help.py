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
from vse_pipe.commands._help import EXAMPLES

GROUP = typer.main.get_command(app)


def test_every_command_has_an_example_and_few_options():
    assert set(EXAMPLES) == set(GROUP.commands)
    most = {name: len(command.params) for name, command in GROUP.commands.items()}
    assert {name: count for name, count in most.items() if count > (16 if name == "rank" else 12)} == {}


@pytest.mark.parametrize(("name", "example"), EXAMPLES.items())
def test_an_example_is_a_call_that_the_command_takes(name, example):
    program, *arguments = shlex.split(example)
    context = GROUP.make_context(program, arguments)
    found, command, rest = GROUP.resolve_command(context, [*context._protected_args, *context.args])
    assert (program, found) == ("vse-pipe", name)
    command.make_context(name, rest, parent=context)


def test_help_has_an_example_and_two_dashes_end_the_options(call):
    out = call("export", "--help")[1]
    headings = [line for line in out.splitlines() if line.endswith(":") and line[:1] not in (" ", "")]
    assert headings == ["Options:", "Example:"]
    assert "no params.yaml" in call("search", "--", "-S")[2]


@pytest.mark.parametrize("arguments", [("train", "-S", "seed=5"), ("train", "--set=seed=2"), ("evaluate", "--quiet")])
def test_an_option_of_vse_pipe_behind_the_command_is_said_to_stand_before(call, arguments):
    command, option, *_ = arguments
    status, out, err = call(*arguments)
    assert (status, out, err) == (
        2,
        "",
        f"error: {option} stands before the command: vse-pipe {option} ... {command}\n",
    )


@pytest.fixture
def complete(tmp_path, monkeypatch, capsys):
    """A function of the words typed so far, the last of them incomplete, that gives what the shell would offer."""
    monkeypatch.chdir(tmp_path)
    runs = {"sum": PARAMS["runs"]["sum"], "hal": {**PARAMS["runs"]["sum"], "loss": "hal"}}
    both = {"both": {"runs": ["sum", "hal"]}}
    write_params(tmp_path, runs=runs, ensembles=both, grid={"inferences": ["nns", "is+rgm"]})
    call = caller(monkeypatch, capsys)

    def completed(*words: str) -> list[str]:
        monkeypatch.setenv("_VSE_PIPE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["vse-pipe", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        out, err = output(call)
        assert err == ""
        return out.split()

    return completed


OFFERED = [
    (("train", "--run", ""), ["hal", "sum"]),
    (("train", "--loss", "su"), ["sum"]),
    (("extract", "--backbone", "res"), ["resnet152"]),
    (("evaluate", "--inference", "nns,cs"), ["nns,csls"]),
    (("export", "--to", ""), ["atlas", "faiss", "npy", "parquet", "trec"]),
    (("apply", "flickr8k_n"), ["flickr8k_noise"]),
]


@pytest.mark.parametrize(("words", "offered"), OFFERED, ids=[" ".join(words) for words, _ in OFFERED])
def test_what_is_offered(complete, words, offered):
    assert complete(*words) == offered


@pytest.mark.parametrize("text", ["runs: [", "runs: 3\n", None], ids=["no YAML", "no mapping", "no file"])
def test_a_project_that_cannot_be_read_offers_nothing(complete, tmp_path, text):
    (tmp_path / "params.yaml").unlink() if text is None else (tmp_path / "params.yaml").write_text(text)
    assert complete("train", "--run", "") == []


def test_it_is_quick_and_the_script_can_be_had(tmp_path):
    """Of a process of its own; pydantic and torch would each take longer than a person waits for a tab."""
    write_params(tmp_path)
    words = {"_VSE_PIPE_COMPLETE": "complete_bash", "COMP_WORDS": "vse-pipe train --run ", "COMP_CWORD": "3"}
    spent = [_children_s()]
    for _ in range(2):
        assert run(cwd=tmp_path, **words) == (0, b"sum\n", b"")
        spent.append(_children_s())
    # 0.25 s of processor time, which does not grow with what else the machine does as seconds on the wall would.
    assert min(after - before for before, after in pairwise(spent)) < 0.8, spent
    status, out, _ = run(cwd=tmp_path, _VSE_PIPE_COMPLETE="source_bash")
    assert (status, b"_VSE_PIPE_COMPLETE=complete_bash" in out) == (0, True)


def _children_s() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


COMPLETING = (
    "from vse_pipe.commands import _help as c; c.section('runs')(''); c.inferences(''); c.overlays(''); c.papers('')"
)
LISTING = "from vse_pipe.papers import listing; listing.papers()"
HEAVY = {"torch", "pandas", "pyarrow"}


@pytest.mark.parametrize(
    ("code", "needed", "heavy"),
    [(COMPLETING, "ruamel", HEAVY | {"pydantic", "numpy", "dvc"}), (LISTING, "vse_pipe.papers.catalogue", HEAVY)],
    ids=["completing", "the list of papers"],
)
def test_nothing_heavy_is_imported(tmp_path, code, needed, heavy):
    write_params(tmp_path)
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert (needed in loaded, heavy & loaded) == (True, set())
