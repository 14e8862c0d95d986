"""The command line as a user meets it: what it selects, what it says and the status it ends with."""

import io
import os
import re
import signal
import sys
import time
from importlib.metadata import version
from unittest.mock import Mock

import pytest

from tests.command_line import caller, failure, output
from tests.toy_project import write_params, write_prepared
from vse_pipe import cli
from vse_pipe.cli import app
from vse_pipe.core import locks
from vse_pipe.core.errors import IntegrityError, LockedError, MissingResource, PipelineError
from vse_pipe.inject import stage as inject_stage
from vse_pipe.train import stage as train_stage


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Call the command line in a small project; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    return caller(monkeypatch, capsys)


USAGE = [
    (("train", "--run", "summ"), "error: unknown run 'summ'; did you mean 'sum'? known: sum"),
    (("train", "--loss", "hal"), "error: no run in params.yaml has loss 'hal'"),
    (("inject", "--noise", "no"), "error: unknown noise 'no'; known: clean, half"),
    (("evaluate", "--inference", "cslss"), "error: unknown inference criterion 'cslss'; did you mean 'csls'?"),
    (("extract", "--backbone", "x", "--features", "plain"), "error: --features and --backbone exclude each other"),
    (("-S", "train.lr", "inject"), "error: --set 'train.lr': expected KEY=VALUE"),
    (("-S", "train.lr=fast", "inject"), "error: params.yaml train.lr: input should be a valid number, got 'fast'"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_wrong_usage_is_status_2_and_one_line(run, arguments, message):
    status, out, err = run(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(message), err


@pytest.mark.parametrize("arguments", [("no-such-command",), ("train", "--bogus"), ("train", "surplus")])
def test_what_typer_refuses_is_status_2(run, arguments):
    assert run(*arguments)[0] == 2


def test_a_terminal_of_another_encoding_gets_escapes(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "latin-1")
    monkeypatch.setattr(sys, "stdout", stream)
    cli._escape_unknown_letters()
    print("→ ö", end="", flush=True)
    assert stream.buffer.getvalue() == b"\\u2192 \xf6"


ERRORS = {
    **{PipelineError("x"): 1, MissingResource("x"): 4, IntegrityError("x"): 5, LockedError("x"): 75},
    OSError(28, "No space left on device"): 1,
}


@pytest.mark.parametrize(("error", "status"), ERRORS.items())
def test_each_error_has_its_status(run, monkeypatch, error, status):
    monkeypatch.setattr(inject_stage, "inject", Mock(side_effect=error))
    err = failure(run, status, "inject", "--noise", "clean")
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_a_locked_output_is_status_75(run, tmp_path):
    write_prepared()
    with locks.claim(tmp_path / "data" / "inject" / "toy" / "clean"):
        assert "is being written by process" in failure(run, 75, "inject", "--noise", "clean")


def test_a_stage_runs_from_a_subfolder_and_for_all_nodes(run, tmp_path, monkeypatch):
    write_prepared()
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    output(run, "inject")
    assert all((tmp_path / "data/inject/toy" / noise / "pairs.parquet").is_file() for noise in ("clean", "half"))


def test_version(run):
    assert run("--version") == (0, f"vse-pipe {version('vse-pipe')}\n", "")


def test_help_groups_the_commands_and_leaves_none_over(run):
    out = output(run, "--help")[0]
    panels = ("Stages, in their order", "Results", "Search and export", "Project and machine")
    headings = [line.removesuffix(":") for line in out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Options", *panels]
    listed = re.findall(r"^  (\w+)  ", out, re.MULTILINE)
    assert sorted(listed) == sorted(command.name or command.callback.__name__ for command in app.registered_commands)
    assert {"prepare", "extract", "inject", "train", "embed", "evaluate", "report"} <= {*listed}


GOES_ON = "; the same command goes on where it was\n"


@pytest.mark.parametrize(("command", "said"), [(("train", "--run", "sum"), GOES_ON), (("inject",), "\n")])
@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_ctrl_c_and_sigterm_are_one_line_and_a_status_of_their_own(run, monkeypatch, command, said, number, word):
    def interrupted(*arguments):
        os.kill(os.getpid(), number)
        time.sleep(60)

    # Shells have what runs in the background ignore Ctrl-C, and Python then keeps to it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(inject_stage, "inject", interrupted)
    monkeypatch.setattr(train_stage, "train", interrupted)
    try:
        status, out, err = run(*command)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (status, out, err) == (128 + number, "", word + said)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 9 TiB"),
        type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory\nmore"),
        *map(RuntimeError, ("DefaultCPUAllocator: can't allocate memory", "std::bad_alloc")),
    ],
)
def test_out_of_memory_is_one_line(run, monkeypatch, error):
    monkeypatch.setattr(inject_stage, "inject", Mock(side_effect=error))
    said = str(error).partition("\n")[0]
    assert run("inject", "--noise", "clean") == (1, "", f"error: out of memory: {said}\n")


def test_a_defect_keeps_its_traceback(run, monkeypatch):
    monkeypatch.setattr(inject_stage, "inject", Mock(side_effect=RuntimeError("a defect")))
    with pytest.raises(RuntimeError, match="a defect"):
        run("inject", "--noise", "clean")
