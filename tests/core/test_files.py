"""Files that appear whole, names below a root, and errors about files."""

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

from vse_pipe.core import files, tables
from vse_pipe.core.errors import Damage, InputError, IntegrityError, PipelineError


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with pytest.raises(RuntimeError), files.whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(path.parent.iterdir()) == []
    with files.whole_file(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"


def test_a_failed_folder_leaves_the_old_one(tmp_path):
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


def test_what_a_killed_writer_left_is_cleared(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "half").write_text("x")
    with files.whole_folder(tmp_path / "out") as folder:
        assert list(folder.iterdir()) == []


def test_replacing_never_writes_into_the_old_file(tmp_path):
    """DVC hard-links outputs to its cache: writing in place would change the cache too."""
    path, cache = tmp_path / "file", tmp_path / "cache"
    path.write_text("cached")
    os.link(path, cache)
    with files.whole_file(path) as temporary:
        temporary.write_text("new")
    assert cache.read_text() == "cached"


def test_json_is_sorted_and_finite(tmp_path):
    files.write_json(tmp_path / "a.json", {"b": 1, "a": {"d": 1.5, "c": "é"}})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": {\n    "c": "é",\n    "d": 1.5\n  },\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="Out of range"):
        files.write_json(tmp_path / "b.json", {"a": float("nan")})
    assert not (tmp_path / "b.json").exists()


def test_read_json_names_the_file(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json: not a JSON document"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(InputError, match="does not exist"):
        files.read_json(tmp_path / "b.json")
    assert json.dumps({}) == "{}"


@pytest.fixture
def full_disk():
    """No file grows beyond 4 KiB: the write fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("tensor", [np.zeros(10_000), torch.zeros(10_000)], ids=["numpy", "torch"])
def test_tensors_that_do_not_fit_the_disk_name_their_file(tmp_path, full_disk, tensor):
    path = tmp_path / "a.safetensors"
    with pytest.raises(OSError, match="File too large") as caught:
        files.save_tensors(path, {"a": tensor})
    assert caught.value.filename == str(path)
    assert (
        caught.value.strerror == f"File too large: there is room for 4.1 kB, and it needs {tensor.nbytes / 1e3:.1f} kB"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("array", [np.arange(12, dtype=np.int32), np.asfortranarray(np.ones((3, 4))), np.zeros((0, 5))])
def test_an_array_has_the_bytes_that_numpy_gives_it(tmp_path, array):
    files.write_array(tmp_path / "a.npy", array)
    np.save(tmp_path / "b.npy", array)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_tensors_come_back(tmp_path):
    files.save_tensors(tmp_path / "a", {"a": torch.arange(3)}, {"key": "value"})
    with safe_open(tmp_path / "a", framework="np") as file:
        assert file.get_tensor("a").tolist() == [0, 1, 2]
        assert file.metadata() == {"key": "value"}
    files.save_tensors(tmp_path / "b", {"a": np.arange(3)})
    assert load_file(tmp_path / "b")["a"].tolist() == [0, 1, 2]
    files.save_tensors(tmp_path / "c", {})
    assert load_file(tmp_path / "c") == {}


def test_a_failed_write_names_the_file_it_was_for(tmp_path, full_disk):
    with pytest.raises(OSError, match=r"out\.txt") as caught, files.whole_file(tmp_path / "out.txt") as path:
        path.write_bytes(bytes(10_000))
    assert caught.value.filename == str(tmp_path / "out.txt")
    assert caught.value.strerror == "File too large: there is room for 4.1 kB, and it needs more than that"
    with pytest.raises(OSError, match="folder") as caught, files.whole_folder(tmp_path / "folder") as path:
        files.write_array(path / "a.npy", np.zeros(10_000))
    assert caught.value.filename == str(tmp_path / "folder" / "a.npy")
    assert caught.value.strerror.endswith(": there is room for 4.1 kB, and it needs 80.0 kB")
    assert list(tmp_path.iterdir()) == []


LEAVE = """
import os, sys, time
from pathlib import Path
from vse_pipe.core.files import whole_file
with whole_file(Path(sys.argv[1])) as temporary:
    temporary.write_bytes(b"half")
    (temporary.parent / ".tmpXyZ").write_bytes(b"as safetensors does")
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_what_a_dead_writer_left_goes_with_the_next_and_what_a_living_one_writes_stays(tmp_path):
    path = tmp_path / "out" / "file"
    writers = [
        subprocess.Popen([sys.executable, "-c", LEAVE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        assert [writer.stdout.readline() for writer in writers] == ["writing\n"] * 2
        writers[0].kill()
        writers[0].wait()
        (path.parent / ".file.17.tmp").write_bytes(b"by an earlier version")
        (path.parent / ".mine.tmp").write_bytes(b"somebody's own")
        assert len(list(path.parent.iterdir())) == 4
        with files.whole_file(path) as temporary:
            temporary.write_bytes(b"whole")
        living = f".file.{writers[1].pid}.tmp"
        assert sorted(one.name for one in path.parent.iterdir()) == sorted([living, ".mine.tmp", "file"])
        files.tidy(path.parent)
        assert (path.parent / living / "file").read_bytes() == b"half"
        writers[1].kill()
        writers[1].wait()
        files.tidy(path.parent)
        assert sorted(one.name for one in path.parent.iterdir()) == [".mine.tmp", "file"]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def test_a_writer_killed_between_two_renames_leaves_the_old_folder(tmp_path):
    out = tmp_path / "out"
    with files.whole_folder(out) as folder:
        (folder / "a").write_text("old")
    out.rename(tmp_path / "out.partial.partial")
    files.tidy(out)
    assert (out / "a").read_text() == "old"
    shutil.copytree(out, tmp_path / "out.partial.partial")
    files.tidy(out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_others_left_in_or_beside_a_folder_stays(tmp_path):
    """Another output of a name that resembles ours, and what other programs call temporary."""
    for name in ("out/.x.17.tmp/a", "out/.y.17.tmp", "out/a/b/.z.17.tmp", "out.old.partial/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    files.tidy(tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_came_while_the_folder_was_built_stays(tmp_path):
    out = tmp_path / "out"
    with files.whole_folder(out, ["a"]) as folder:
        (folder / "a").write_text("old")
    with (
        pytest.raises(PipelineError, match="notes: not a file of this output"),
        files.whole_folder(out, ["a"]) as folder,
    ):
        (folder / "a").write_text("new")
        (out / "notes").write_text("mine")
    assert ((out / "a").read_text(), (out / "notes").read_text()) == ("old", "mine")


def test_a_file_in_the_place_of_a_folder_stays(tmp_path):
    (tmp_path / "out").write_text("mine")
    said = "out: a file lies in the place of a folder; move it away"
    with pytest.raises(PipelineError, match=said), files.whole_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_error_that_names_its_file_keeps_it(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, files.whole_file(tmp_path / "out.txt"):
        (tmp_path / "nowhere").read_text()
    assert caught.value.filename == str(tmp_path / "nowhere")


@pytest.mark.parametrize("content", ["[]", "7", "null", '"text"', "[" * 100_000, "9" * 5000, "\udcff"])
def test_a_document_that_is_no_object(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"a\.json: (the JSON document is a .*, expected an object|not a JSON)"):
        files.read_json(tmp_path / "a.json")


def test_a_list_where_one_is_expected(tmp_path):
    (tmp_path / "a.json").write_text('["a"]')
    (tmp_path / "b.json").write_text("{}")
    assert files.read_json(tmp_path / "a.json", list) == ["a"]
    with pytest.raises(InputError, match="is a dict, expected a list"):
        files.read_json(tmp_path / "b.json", list)


def test_a_table_comes_back(tmp_path):
    path = tmp_path / "a.csv"
    table = pd.DataFrame({"epoch": [1, 2], "loss": [0.5, None]})
    files.write_csv(path, table)
    pd.testing.assert_frame_equal(tables.read_csv(path, ["loss"], "vse-pipe train"), table)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "column 'epoch' is missing; run `vse-pipe train` again"),
        (b"epoch,loss\n1,\xff\n", "not a CSV file"),
        (b"epoch,loss\n1,2,3\n", "not a CSV file"),
        (b"epoch,loss" + b"," * 200 + b"\n1,2\n", "has 202 columns; run `vse-pipe train` again"),
        (b"epoch,los\n1,2\n", "column 'loss' is missing; run `vse-pipe train` again"),
    ],
)
def test_a_table_that_is_none(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.csv: {message}"):
        tables.read_csv(tmp_path / "a.csv", ["epoch", "loss"], "vse-pipe train")


DAMAGE = Damage(IntegrityError, "fetch it again")


def test_a_place_that_no_file_has_is_damage_of_the_file():
    """A header can name one, and seeking it is then refused by the system."""
    with (
        pytest.raises(IntegrityError, match=r"^w\.pth: damaged weights file \(.*Invalid argument.*\); fetch it again$"),
        DAMAGE.named(Path("w.pth"), "damaged weights file"),
    ):
        raise OSError(errno.EINVAL, "Invalid argument")


def test_what_the_system_cannot_do_is_no_damage():
    with pytest.raises(PermissionError), DAMAGE.named(Path("w.pth"), "damaged weights file"):
        raise PermissionError(errno.EACCES, "Permission denied")
