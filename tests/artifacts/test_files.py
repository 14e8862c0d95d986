import json
import os

import pytest

from pipeline.artifacts import _files
from pipeline.errors import InputError


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with pytest.raises(RuntimeError), _files.whole_file(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(path.parent.iterdir()) == []
    with _files.whole_file(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"


def test_a_failed_folder_leaves_the_old_one(tmp_path):
    out = tmp_path / "out"
    with _files.whole_folder(out) as folder:
        (folder / "a").write_text("old")
    with pytest.raises(RuntimeError), _files.whole_folder(out) as folder:
        (folder / "a").write_text("new")
        raise RuntimeError
    assert (out / "a").read_text() == "old"
    with _files.whole_folder(out) as folder:
        (folder / "b").write_text("new")
    assert [path.name for path in out.iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_writer_left_is_cleared(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "half").write_text("x")
    with _files.whole_folder(tmp_path / "out") as folder:
        assert list(folder.iterdir()) == []


def test_replacing_never_writes_into_the_old_file(tmp_path):
    """DVC hard-links outputs to its cache: writing in place would change the cache too."""
    path, cache = tmp_path / "file", tmp_path / "cache"
    path.write_text("cached")
    os.link(path, cache)
    with _files.whole_file(path) as temporary:
        temporary.write_text("new")
    assert cache.read_text() == "cached"


def test_json_is_sorted_and_finite(tmp_path):
    _files.write_json(tmp_path / "a.json", {"b": 1, "a": {"d": 1.5, "c": "é"}})
    assert (
        tmp_path / "a.json"
    ).read_text() == '{\n  "a": {\n    "c": "é",\n    "d": 1.5\n  },\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="Out of range"):
        _files.write_json(tmp_path / "b.json", {"a": float("nan")})
    assert not (tmp_path / "b.json").exists()


def test_read_json_names_the_file(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json: not a JSON document"):
        _files.read_json(tmp_path / "a.json")
    with pytest.raises(InputError, match="does not exist"):
        _files.read_json(tmp_path / "b.json")
    assert json.dumps({}) == "{}"
