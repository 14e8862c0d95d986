"""Lists of files from outside: what changes them and what does not, and which files each format and member lists."""

import os
import time
from pathlib import Path

import pytest

from vse_pipe.project import sources
from vse_pipe.project.registry import BACKBONES, FORMATS, PROPOSALS, TEXT_FEATURES
from vse_pipe.project.sources import ABSENT, EVERYTHING, HEAD, SourceFiles, content, listing


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = Path("photos")
    (folder / "deep").mkdir(parents=True)
    for name in ("a.png", "B.PNG", "deep/c.png", "note.txt", ".hidden.png"):
        (folder / name).write_text(name, encoding="utf-8")
    return folder


ALL = SourceFiles(Path("photos"), endings=EVERYTHING)
PNG = SourceFiles(Path("photos"), endings=(".png",))


def test_files_of_a_folder_by_their_endings_and_what_does_not_change_their_list(folder, monkeypatch):
    assert set(content(PNG)) == {"a.png", "B.PNG", "deep/c.png"}
    assert set(content(ALL)) == {"a.png", "B.PNG", "deep/c.png", "note.txt"}
    assert set(content(SourceFiles(folder, patterns=("a*.png", "*.txt")))) == {"a.png", "note.txt"}
    assert set(content(SourceFiles(folder / "a.png", patterns=("*",)))) == {""}, "a file in the place of a folder"
    before = listing([PNG], "")
    (folder / "a.png").touch()
    (folder / "note.txt").unlink()
    assert listing([PNG], "") == before
    monkeypatch.setattr(sources, "sha256", pytest.fail)
    assert listing([PNG], "") == before, "nothing is read again"


def _replace(folder: Path) -> None:
    (folder / "a.png").write_text("b.png", encoding="utf-8")


def _replace_at_the_same_time(folder: Path) -> None:
    before = (folder / "a.png").stat()
    time.sleep(0.02)
    _replace(folder)
    os.utime(folder / "a.png", ns=(before.st_atime_ns, before.st_mtime_ns))


def _swap(folder: Path) -> None:
    (folder / "a.png").rename(folder / "x")
    (folder / "B.PNG").rename(folder / "a.png")
    (folder / "x").rename(folder / "B.PNG")


@pytest.mark.parametrize(
    "change",
    [
        _replace,
        _replace_at_the_same_time,
        _swap,
        lambda folder: (folder / "new.png").write_text("", encoding="utf-8"),
        lambda folder: (folder / "a.png").rename(folder / "z.png"),
    ],
)
def test_what_changes_a_list(folder, change):
    before = listing([PNG], "")
    change(folder)
    after = listing([PNG], before)
    assert after != before
    assert after == listing([PNG], "")


def test_what_is_not_on_this_machine_stays_as_it_was(folder, capsys):
    table = SourceFiles(Path("table.csv"))
    Path("table.csv").write_text("x", encoding="utf-8")
    before = listing([table, PNG], "")
    folder.rename("elsewhere")
    after = listing([table, PNG], before)
    assert after == before
    assert "photos is not on this machine; it is taken as it was when it was read last" in capsys.readouterr().err
    Path("table.csv").write_text("y", encoding="utf-8")
    changed = listing([table, PNG], before)
    lines = [{line.split(" ", 2)[2]: line for line in text.splitlines()[1:]} for text in (before, changed)]
    assert lines[0]["photos"] == lines[1]["photos"]
    assert lines[0]["table.csv"] != lines[1]["table.csv"]
    assert listing([PNG], "") == f"{HEAD}{ABSENT} 0 photos\n"


def _csv(source: Path) -> list[SourceFiles]:
    return FORMATS.options("csv")(images="photos").reads(source)


def test_the_files_of_each_format_and_every_member_that_may_read_some_says_which(folder):
    files = "train_ims.npy train_caps.txt dev_caps.tsv train-00.tar val.tar train.parquet notes.md dataset_x.json"
    for name in [*files.split(), "train.txt", "Sentences/0.txt", "Annotations/0.xml", "pics/0.jpg", "pics/notes.md"]:
        (Path("mine") / name).parent.mkdir(exist_ok=True, parents=True)
        (Path("mine") / name).write_text(name, encoding="utf-8")

    def listed(name: str, **options: object) -> dict[str, set[str]]:
        params = FORMATS.options(name)(**options)
        return {one.place: set(content(one)) for one in params.reads(Path("mine"))}

    assert [*listed("karpathy", images="pics").values()] == [{"dataset_x.json"}, {"0.jpg", "notes.md"}]
    assert [*listed("webdataset", train="train-{00..07}.tar").values()] == [{"train-00.tar", "val.tar"}]
    assert [*listed("parquet", val=0.1, test=0.1).values()] == [{"train.parquet"}, {"pics/0.jpg"}]
    assert listed("shapes") == {}
    without = [
        f"{family.kind} {name}"
        for family in (FORMATS, PROPOSALS, BACKBONES, TEXT_FEATURES)
        for name in family.names()
        if not hasattr(family.options(name), "reads") and not getattr(family.traits(name), "proposes", False)
    ]
    assert without == []


def test_what_is_said_of_remote_files():
    import fsspec

    system = fsspec.filesystem("memory")
    for name in ("train-0.tar", "train-1.tar", "notes.md"):
        system.pipe(f"/bucket/marks/{name}", b"x")
    group = SourceFiles(Path("memory:/bucket/marks"), patterns=("train*.tar",))
    before = content(group)
    assert set(before) == {"train-0.tar", "train-1.tar"}
    assert set(content(SourceFiles(Path("memory:/bucket/marks/train-0.tar"), patterns=("*",)))) == {""}
    assert listing([group], "") == listing([group], "")
    system.pipe("/bucket/marks/train-1.tar", b"xy")
    assert {name for name, mark in content(group).items() if mark != before[name]} == {"train-1.tar"}


def test_lists_are_written_where_something_has_changed_and_not_else(folder):
    files = {"prepare@mine": _csv(Path("table.csv")), "report": []}
    Path("table.csv").write_text("image,caption\na.png,x\n", encoding="utf-8")
    texts, places = [], []
    for change in (lambda: None, lambda: None, lambda: _replace(folder)):
        change()
        sources.write_sources(files)
        texts.append(Path("data/sources/prepare/mine").read_text(encoding="utf-8"))
        places.append(Path("data/sources").stat().st_ino)
    assert texts[0] == texts[1] != texts[2]
    assert places[0] == places[1], "nothing is written"
    assert Path("data/sources/report").read_text(encoding="utf-8") == HEAD
