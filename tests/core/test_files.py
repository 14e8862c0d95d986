"""Files that appear whole and stay the same while they are read, one writer an output, and errors about files."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from vse_pipe.core import files, tables
from vse_pipe.core.errors import InputError, LockedError, PipelineError
from vse_pipe.core.locks import claim, share


def test_a_file_appears_whole_or_not_at_all_and_never_within_the_old_one(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with pytest.raises(RuntimeError), files.whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(path.parent.iterdir()) == []
    with files.whole_file(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    # DVC hard-links outputs to its cache: writing in place would change the cache too.
    path, cache = tmp_path / "file", tmp_path / "cache"
    path.write_text("cached")
    os.link(path, cache)
    with files.whole_file(path) as temporary:
        temporary.write_text("new")
    assert cache.read_text() == "cached"
    with pytest.raises(FileNotFoundError) as caught, files.whole_file(tmp_path / "out.txt"):
        (tmp_path / "nowhere").read_text()
    assert caught.value.filename == str(tmp_path / "nowhere")


def test_a_folder_appears_whole_and_what_failed_or_was_killed_leaves_the_old_one(tmp_path):
    out = tmp_path / "out"
    with files.whole_folder(out) as folder:
        (folder / "a").write_text("old")
    with pytest.raises(RuntimeError), files.whole_folder(out) as folder:
        (folder / "a").write_text("new")
        raise RuntimeError
    assert (out / "a").read_text() == "old"
    with files.whole_folder(out) as folder:
        (folder / "b").write_text("new")
    assert [path.name for path in out.iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "half").write_text("x")
    with files.whole_folder(tmp_path / "out") as folder:
        assert list(folder.iterdir()) == []
    out = tmp_path / "out"
    with files.whole_folder(out) as folder:
        (folder / "a").write_text("old")
    out.rename(tmp_path / "out.partial.partial")
    files.tidy(out)
    assert (out / "a").read_text() == "old"
    shutil.copytree(out, tmp_path / "out.partial.partial")
    files.tidy(out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_json_is_sorted_and_finite_and_what_is_none_is_named(tmp_path):
    files.write_json(tmp_path / "a.json", {"b": 1, "a": {"d": 1.5, "c": "é"}})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": {\n    "c": "é",\n    "d": 1.5\n  },\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="Out of range"):
        files.write_json(tmp_path / "b.json", {"a": float("nan")})
    assert not (tmp_path / "b.json").exists()
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json: not a JSON document"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(InputError, match="does not exist"):
        files.read_json(tmp_path / "b.json")
    (tmp_path / "a.json").write_text('["a"]')
    (tmp_path / "b.json").write_text("{}")
    assert files.read_json(tmp_path / "a.json", list) == ["a"]
    with pytest.raises(InputError, match="is a dict, expected a list"):
        files.read_json(tmp_path / "b.json", list)


def test_tensors_and_tables_come_back(tmp_path):
    files.save_tensors(tmp_path / "a", {"a": torch.arange(3)})
    assert load_file(tmp_path / "a")["a"].tolist() == [0, 1, 2]
    files.save_tensors(tmp_path / "b", {"a": np.arange(3)})
    assert load_file(tmp_path / "b")["a"].tolist() == [0, 1, 2]
    files.save_tensors(tmp_path / "c", {})
    assert load_file(tmp_path / "c") == {}
    path = tmp_path / "a.csv"
    table = pd.DataFrame({"epoch": [1, 2], "loss": [0.5, None]})
    files.write_csv(path, table)
    pd.testing.assert_frame_equal(tables.read_csv(path), table)


LEAVE = """
import os, sys, time
from pathlib import Path
from vse_pipe.core.files import whole_file
with whole_file(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    print("writing", flush=True)
    sys.stdin.read()
    temporary.write_bytes(b"whole")
"""


def test_writers_of_one_file_do_not_mix_and_what_a_killed_one_left_goes_with_the_next_claim(tmp_path):
    path = tmp_path / "out" / "file"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([sys.executable, "-c", LEAVE, path], **pipes) for _ in range(2)]
    try:
        assert [writer.stdout.readline() for writer in writers] == ["writing\n"] * 2
        files.write_text(path, "first")
        writers[0].communicate()
        assert path.read_text() == "whole"
        writers[1].kill()
        writers[1].wait()
        assert len(list(path.parent.iterdir())) == 2
        with claim(path.parent):
            assert list(path.parent.iterdir()) == [path]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def test_a_file_in_the_place_of_a_folder_stays(tmp_path):
    (tmp_path / "out").write_text("mine")
    said = "out: a file lies in the place of a folder; move it away"
    with pytest.raises(PipelineError, match=said), files.whole_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


HOLD = "import sys, time; from pathlib import Path; from vse_pipe.core.locks import claim\nwith claim(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
ME = f"process {os.getpid()} on "


def process_of(code: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def test_a_second_writer_stops_at_once_and_names_the_first_until_that_is_killed(tmp_path):
    with process_of(HOLD, tmp_path / "out") as holder:
        assert holder.stdout.readline() == "held\n"
        started = time.monotonic()
        with pytest.raises(LockedError, match=f"process {holder.pid}"), claim(tmp_path / "out"):
            pytest.fail("two writers")
        assert time.monotonic() - started < 1
        holder.kill()
    with claim(tmp_path / "out"):
        assert (tmp_path / "out.lock").read_text() == f"{os.getpid()} on {socket.gethostname()}"


@pytest.mark.parametrize("asks", ["die_with_parent()", "signal.signal(15, signal.SIG_IGN); die_with_parent(9)"])
def test_a_stage_started_by_dvc_ends_with_its_parent(asks):
    child = f"from vse_pipe.core.locks import die_with_parent; import os, signal, time; {asks}; print(os.getpid(), flush=True); time.sleep(60)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    with process_of(parent) as process:
        orphan = int(process.stdout.readline())
        process.kill()
    for _ in range(50):
        stat = Path(f"/proc/{orphan}/stat")
        try:
            if stat.read_text(encoding="ascii").split()[2] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.1)
    os.kill(orphan, signal.SIGKILL)
    pytest.fail("the orphan went on")


def test_shares_exclude_their_like_and_the_whole(tmp_path):
    out = tmp_path / "out"
    with share(out, 1), share(out, 3):
        with pytest.raises(LockedError, match=f"{ME}.*; wait"), share(out, 1):
            pytest.fail("two processes with one share")
        with pytest.raises(LockedError, match=f"{ME}.*; wait"), claim(out):
            pytest.fail("a writer beside sharers")
    assert list(tmp_path.iterdir()) == []
