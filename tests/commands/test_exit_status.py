"""Each exit status, from a process as a script or DVC runs it."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from tests import bombs
from tests.command_line import heed_ctrl_c
from tests.commands.script import COMMAND, environment, run
from tests.sealed import made_anew
from tests.small_project import set_params
from tests.toy_project import PARAMS, write_params
from vse_pipe.core import locks

pytestmark = pytest.mark.acceptance


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path


def _said(found: tuple[int, bytes, bytes], status: int) -> str:
    """The one line on stderr; never a traceback, and nothing on stdout."""
    lines = found[2].decode().splitlines()
    assert (found[0], found[1], len(lines)) == (status, b"", 1), lines
    return lines[0]


def test_0_done_and_2_wrong_usage(project):
    status, out, err = run("papers", "vsepp", "--json", cwd=project)
    assert (status, err) == (0, b"")
    assert json.loads(out)
    assert run("train", "--bogus", cwd=project)[0] == 2


@pytest.mark.parametrize(
    ("status", "remove", "command", "message"),
    [
        (1, "data", ("prepare",), "error: data/prepare: Not a directory$"),
        (2, "params.yaml", ("train",), "error: no params.yaml in "),
        (3, None, ("inject",), "error: data/prepare/toy/captions.parquet does not exist; make it with"),
        (4, None, ("prepare",), ".*toy.csv does not exist"),
        (4, None, ("rank", "--images", "no.npy", "--captions", "no.npy"), "error: no.npy does not exist$"),
    ],
)
def test_what_cannot_be_done_is_one_line_with_its_status(project, status, remove, command, message):
    if remove == "data":  # a file in its place
        (project / "data").rmdir()
        (project / "data").write_text("")
    elif remove:
        (project / remove).unlink()
    assert re.match(message, _said(run(*command, cwd=project), status))


def test_5_a_copy_of_another_run_s_model(made):
    """Of the same members: only the name in config.json tells it."""
    set_params(made / "params.yaml", ["runs.twin=" + json.dumps(PARAMS["runs"]["sum"])])
    shutil.copytree("data/train/sum", "data/train/twin")
    status, out, err = run("embed", "--run", "twin", cwd=made)
    assert (status, out) == (5, b"")
    assert b"data/train/twin: the model of run 'sum', expected 'twin'; run `vse-pipe train --run twin` again" in err
    made_anew(made / "data/train/sum", weights="0")
    status, out, err = run("evaluate", "--run", "sum", "--inference", "nns", cwd=made)
    assert (status, out) == (5, b"")
    assert b"data/embed/sum: made from other weights than data/train/sum now holds" in err


@pytest.mark.parametrize("command", ["-S train.lr=0.3 train --run sum", "embed --run sum"])
def test_1_a_full_disk_leaves_what_was_there(made, command):
    """No file grows beyond 1,000 bytes: the write fails, as on a full disk. What was there stays, and nothing else."""
    before = {path: path.read_bytes() for path in sorted(made.rglob("*")) if path.is_file()}
    limit = ["prlimit", "--fsize=1000:1000", *COMMAND, *command.split()]
    # Python itself would keep byte code that it could write only in part.
    done = subprocess.run(limit, cwd=made, env=environment(PYTHONDONTWRITEBYTECODE="1"), capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (1, "")
    assert last.startswith("error: "), last
    assert "File too large" in last
    after = {path: path.read_bytes() for path in sorted(made.rglob("*")) if path.is_file()}
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert {path.suffix for path in changed} <= {".lock"}


def test_75_another_process_writes_it(project):
    with locks.claim(Path("data/prepare/toy")):
        found = run("prepare", cwd=project)
    assert f"is being written by process {os.getpid()}" in _said(found, 75)


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, b"interrupted\n"), (signal.SIGTERM, 143, b"terminated\n")],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_130_interrupted_and_143_terminated(project, number, status, said):
    """While it waits for a pipe that nobody writes to."""
    pipe = project / "toy.csv"
    os.mkfifo(pipe)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed_ctrl_c}
    process = subprocess.Popen([*COMMAND, "sources"], cwd=project, env=environment(), **pipes)
    # The reader is there as soon as the pipe can be opened for writing; it then waits for what is never written.
    with pipe.open("wb"):
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (status, b"", said)


@pytest.mark.parametrize("both", [False, True], ids=["stdout", "logs too"])
def test_a_reader_that_leaves_is_no_traceback(project, both):
    """`| head`: a pipe that nobody reads from the start."""
    reader, writer = os.pipe()
    os.close(reader)
    err = writer if both else subprocess.PIPE
    done = subprocess.run([*COMMAND, "papers"], cwd=project, env=environment(), stdout=writer, stderr=err)
    os.close(writer)
    assert (done.returncode in (0, 1), b"Traceback" in (done.stderr or b"")) == (True, False)


def _npy(path: Path, version: int, length: bytes, header: bytes) -> Path:
    path.write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + header + b"\n" + bytes(64))
    return path


def _shaped(path: Path, shape: str) -> Path:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    return _npy(path, 1, (len(header) + 1).to_bytes(2, "little"), header)


# Vectors of 0.5 GB in a file of a few kB, and headers of .npy that are no headers.
HOSTILE = {
    "lists": lambda folder: bombs.zeros(folder / "a.parquet", rows=625),
    "lists of fixed size": lambda folder: bombs.zeros(
        folder / "a.parquet", rows=625, kind=pa.list_(pa.float32(), 200_000)
    ),
    "one row group": lambda folder: bombs.zeros(folder / "a.parquet", rows=125, dim=10**6, step=125),
    "pages": lambda folder: bombs.zeros(folder / "a.parquet", rows=625, use_dictionary=False),
    "a shape": lambda folder: _shaped(folder / "a.npy", "(1000000, 100000)"),
    "a shape beyond numbers": lambda folder: _shaped(folder / "a.npy", f"({'9' * 30}, 2)"),
    "a negative shape": lambda folder: _shaped(folder / "a.npy", "(-4, -4)"),
    "a header of 4 GB": lambda folder: _npy(folder / "a.npy", 2, b"\xff\xff\xff\xff", b"{'descr'"),
    "no literal": lambda folder: _shaped(folder / "a.npy", "(((((("),
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=list(HOSTILE))
def test_3_vectors_that_are_hostile_are_refused_in_one_line_before_they_take_memory(tmp_path, make):
    path, captions = make(tmp_path), bombs.zeros(tmp_path / "c.parquet", "caption_id", rows=3, dim=4)
    assert path.stat().st_size < 2**16
    status, err, peak = bombs.command([*COMMAND, "rank", "--images", path, "--captions", captions], tmp_path)
    assert status == 3
    assert err.startswith(f"error: {path}: ")
    assert err.count("\n") == 1
    # A process of torch alone takes 400; one row group of 0.5 GB takes 930, in one call of five 1,050.
    assert peak < 1200, "MiB"
