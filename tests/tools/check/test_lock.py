"""dvc.lock and DVC's cache as this package reads them, against DVC itself, and what is stale."""

from pathlib import Path

import pytest
from dvc.repo import Repo

from tests.made import record
from vse_pipe.core.errors import ParamsError
from vse_pipe.project import lock
from vse_pipe.project.lock import Lock
from vse_pipe.project.params.document import read_document
from vse_pipe.tools.check import check


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_digests_and_places_are_those_of_dvc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    repo = Repo.init(".", no_scm=True)
    folder = tmp_path / "out"
    (folder / "a").mkdir(parents=True)
    for name, text in [("b.txt", "one\r\n"), ("a/c.txt", "two"), ("a-b", "three"), ("ünï", "4")]:
        (folder / name).write_text(text, encoding="utf-8")
    (tmp_path / ".dvcignore").write_text("*.pyc\n__pycache__\n", encoding="utf-8")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("x", encoding="utf-8")
    (stage,) = repo.add(str(folder))
    repo.close()
    digest = stage.outs[0].hash_info.value
    assert lock.md5(Path("out")) == digest
    assert lock.cached(digest).is_file()
    found = Lock({}).files(lock.Recorded("x", "out", digest))
    assert found == lock.files_below(Path("out"))
    assert all(lock.md5(lock.cached(one)) == one for one in found.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[core]\n    analytics = false\n", ".dvc/cache"),
        ("[cache]\n    dir = ../elsewhere\n", ".dvc/../elsewhere"),
        ("['cache']\n    dir = /far\n", "/far"),
    ],
)
def test_the_cache_lies_where_the_configuration_says(tmp_path, monkeypatch, text, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc" / "config").write_text(text, encoding="utf-8")
    assert lock.cache_folder() == Path(expected)


def test_what_has_changed_since_dvc_ran(made):
    record()
    assert check([]).problems == []
    found = Lock(read_document(Path("params.yaml")))
    assert all(found.changed(stage) == [] for stage in found.stages)
    assert Lock({"seed": 4}).changed("inject@clean") == ["params.yaml seed", "params.yaml noises.clean"]


def test_an_output_made_with_another_value_is_stale(made):
    record()
    text = Path("params.yaml").read_text(encoding="utf-8")
    Path("params.yaml").write_text(text.replace("resamples: 10", "resamples: 20"), encoding="utf-8")
    (found,) = check([]).problems
    assert found.line == "data/evaluate/sum: stale: params.yaml evaluate changed since; run `dvc repro evaluate@sum`"
    assert found.status == 5


def test_an_output_made_from_an_earlier_output_is_stale(made):
    record()
    document = Path("dvc.lock").read_text(encoding="utf-8")
    digest = lock.md5(Path("data/embed/sum"))
    assert document.count(digest) == 2
    # As DVC leaves it when embed ran again and evaluate did not.
    head, _, tail = document.rpartition(digest)
    Path("dvc.lock").write_text(head + "0" * 32 + ".dir" + tail, encoding="utf-8")
    (found,) = check([]).problems
    assert found.line.startswith("data/evaluate/sum: stale: data/embed/sum changed since")


def test_a_lock_file_that_is_no_yaml_is_a_problem(made):
    Path("dvc.lock").write_text("stages: [", encoding="utf-8")
    (found,) = check([]).problems
    assert (found.status, found.address) == (3, "dvc.lock")


@pytest.mark.parametrize("text", ["stages: []", "stages: {a: {outs: }}", "stages: {a: {deps: [{path: 3}]}}"])
def test_a_lock_file_that_dvc_did_not_write_is_named(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    Path("dvc.lock").write_text(text)
    with pytest.raises(ParamsError, match=r"dvc\.lock stages.*; `git checkout dvc.lock` brings back"):
        Lock({})
