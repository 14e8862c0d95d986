"""The name that a folder of pictures gets in params.yaml, and which of its entries is that folder's."""

import dataclasses
from pathlib import Path

import pytest

from tests.report import project
from vse_pipe.core.errors import UsageError
from vse_pipe.project.params.typed import Dataset, Member
from vse_pipe.tools import index


@pytest.fixture
def params(tmp_path, monkeypatch):
    """Two collections of one folder, whose source is written in three ways."""
    (tmp_path / "project").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "link").symlink_to("photos")
    monkeypatch.chdir(tmp_path / "project")
    folder = Member(index.FORMAT, project.Nothing())
    sources = {"mine": "../photos", "again": "../link/."}
    return dataclasses.replace(project.params(), datasets={key: Dataset(folder, at) for key, at in sources.items()})


@pytest.mark.parametrize(
    ("folder", "name"),
    [("v1.2", "v1-2"), ("a b..c", "a-b-c"), (".hidden", "hidden"), ("...", "pictures"), ("x_y+z-", "x_y+z")],
)
def test_a_name_has_no_dot(params, folder, name):
    assert index.dataset_of(params, f"../{folder}", None) == name


def test_a_name_with_a_dot_is_refused(params):
    with pytest.raises(UsageError, match=r"--name 'v1\.2': expected letters, digits and _ \+ -"):
        index.dataset_of(params, "../other", "v1.2")


def test_a_folder_is_told_by_where_it_lies(params, tmp_path):
    for source in (str(tmp_path / "photos"), "../photos", "../link"):
        assert index.dataset_of(params, source, None) == "again"
        assert index.dataset_of(params, source, "mine") == "mine"
        assert index.dataset_of(params, source, "third") == "third"
    assert index.dataset_of(params, str(Path("../else").resolve()), None) == "else"
