"""A folder of pictures: what is no picture of it is named."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from tests.pictures.corpus import bomb, saved
from tests.prepare._data import picture, pictures, prepare, read
from vse_pipe.artifacts import captions, identity, images, names
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.source import Source


@pytest.fixture(autouse=True)
def photos(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    return Path("photos")


def found() -> Source:
    return read("folder", Path("photos"), Path("out"))


def told(capfd) -> str:
    return " ".join(capfd.readouterr().err.split())


def _saved(kind: str, **options) -> bytes:
    return saved(Image.new("RGB", (16, 8), "red"), kind, **options)


def test_pictures_of_all_folders_but_hidden_ones_in_the_order_of_their_paths(photos):
    pictures(photos, ["b.JPG", "a/z.png", "a/b/c.jpeg", ".hidden.png", ".trash/d.png", "A.png"])
    (photos / "notes.txt").write_text("no picture")
    source = found()
    files = ["A.png", "a/b/c.jpeg", "a/z.png", "b.JPG"]
    assert source.images["file"].to_pylist() == files
    ids = source.images["image_id"].to_numpy()
    assert source.names.texts("image_id", ids).to_pylist() == files
    digests = [hashlib.sha256((photos / one).read_bytes()).hexdigest() for one in files]
    assert source.images["sha256"].to_pylist() == digests
    assert set(source.images["split"].to_pylist()) == {"test"}
    assert source.images["width"].to_pylist() == [8] * 4
    assert (source.captions.num_rows, source.left_out, source.broken) == (0, [], [])


def test_no_captions_are_no_problem_and_what_needs_some_says_so(photos, capsys):
    pictures(photos, ["a.png", "b.png"])
    out = prepare("folder", "photos")
    assert "prepare tiny: test 2 images; " in capsys.readouterr().err
    assert captions.read(out).num_rows == 0
    assert captions.absent(out)
    identity.require_current(out)
    with pytest.raises(InputError, match=r"^train max: data set 'tiny' has no captions; "):
        captions.read(out, "train max")


def test_broken_files_keep_their_rows_and_stop_what_does_not_skip_them(photos, capfd):
    pictures(photos, ["good.png"])
    broken = {"cut.jpg": _saved("JPEG")[:300], "empty.png": b"", "huge.png": bomb(20_000, 20_000), "text.jpg": b"hello"}
    for name, content in broken.items():
        (photos / name).write_bytes(content)
    os.mkfifo(photos / "pipe.png")
    with pytest.raises(InputError, match=r"5 of 6 images below photos cannot be used: .*set on_error: skip"):
        prepare("folder", "photos")
    assert not Path("data/prepare/tiny").exists()
    listed = {row["file"]: row for row in images.read(prepare("folder", "photos", on_error="skip")).to_pylist()}
    assert [name for name, row in listed.items() if row["width"]] == ["good.png"]
    assert listed["pipe.png"]["sha256"] == UNREAD
    said = told(capfd)
    assert "cut.jpg does not decode" in said
    assert "empty.png is empty (0 bytes)" in said
    reasons = found().broken
    assert any("huge.png has too many pixels" in one for one in reasons)
    assert "photos: pipe.png is no regular file" in reasons


def test_links_are_followed_each_folder_once_and_those_to_nothing_are_left_out(photos, capfd):
    pictures(photos, ["a.png", "deep/b.png"])
    pictures(Path("elsewhere"), ["c.png", "d/e.png"])
    links = {"inside.png": "deep/b.png", "out.png": "../elsewhere/c.png", "gone.png": "nothing.png"}
    folders = {"folder": "../elsewhere", "again": "deep", "above/link": "../deep"}
    for name, target in (links | {"loop.png": "loop.png"} | folders).items():
        (photos / name).parent.mkdir(exist_ok=True)
        (photos / name).symlink_to(target)
    Path("elsewhere/up").symlink_to("../photos")
    source = found()
    files = ["a.png", "deep/b.png", "folder/c.png", "folder/d/e.png", "inside.png", "out.png"]
    assert source.images["file"].to_pylist() == files
    assert sorted(source.left_out) == [
        "photos/above/link: a link to a folder that is read already",
        "photos/again: a link to a folder that is read already",
        "photos/folder/up: a link to a folder that is read already",
        "photos/gone.png: it leads to no file",
        "photos/loop.png: it leads to no file",
    ]
    prepare("folder", "photos")
    assert "prepare tiny: left out: photos/gone.png: it leads to no file" in told(capfd)


def test_names_that_can_be_ids_are_and_others_are_left_out(photos):
    odd = ['she\'s "here".png', "caf\u00e9.png", "cafe\u0301.png", "\u0627\u0644 \U0001f408.png", "a,b;c|d.png"]
    odd += ["<b>&.png", "-n.png", "UPPER.png"]
    wrong = ["line\nbreak.png", " lead.png", "x.tar::0:5::y.png", f"{'y' * 197}.png", "upper.png"]
    pictures(photos, [*odd, *wrong])
    Path(os.fsdecode(os.fsencode(photos) + b"/latin-\xe9.png")).write_bytes(picture(9))
    source = found()
    assert source.images["file"].to_pylist() == sorted(odd)
    assert sorted(line.partition("photos/")[2] for line in source.left_out) == sorted([
        " lead.png: its path begins or ends with a space and cannot be an id; rename it",
        "latin-\ufffd.png: its name is not UTF-8; rename it",
        "line break.png: its path holds a control character and cannot be an id; rename it",
        "upper.png: its path differs from 'UPPER.png' in capitals only and cannot be an id; rename it",
        "x.tar::0:5::y.png: its name reads as a place in another file; rename it",
        f"{'y' * 197}.png: its path is longer than 200 characters and cannot be an id; rename it",
    ])  # fmt: skip
    out = prepare("folder", "photos")
    held, table = names.read(out), images.read(out)
    for number, file in zip(table["image_id"].to_pylist(), table["file"].to_pylist(), strict=True):
        assert (held.number("image_id", file), held.label("image_id", number)) == (number, file)
    (out / names.NAME).unlink()
    with pytest.raises(InputError, match=r"names\.parquet does not exist"):
        Catalogue.read(out)


def test_what_is_no_folder_of_pictures(photos):
    (photos / "notes.txt").write_text("")
    with pytest.raises(InputError, match=r"photos: no picture in it or in its folders, which end in .jpg, "):
        found()
    shutil.rmtree(photos)
    with pytest.raises(MissingResource, match="source photos does not exist"):
        found()
    photos.write_bytes(picture(1))
    with pytest.raises(InputError, match="source photos is no folder"):
        found()
