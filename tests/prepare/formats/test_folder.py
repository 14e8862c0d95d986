"""A folder of pictures: files that are no pictures are named, and unchanged files are not read again."""

import hashlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.extract.test_corpus import bomb, saved
from tests.prepare._data import picture, pictures, prepare, read
from tests.rules.sources import ROOT
from vse_pipe.artifacts import captions, images, names
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare import scan
from vse_pipe.prepare.formats import folder as folder_format
from vse_pipe.project import paths
from vse_pipe.project.stages import declarations


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def _saved(kind: str, **options) -> bytes:
    return saved(Image.new("RGB", (16, 8), "red"), kind, **options)


def test_pictures_of_all_folders_but_hidden_ones_in_the_order_of_their_paths(tmp_path):
    pictures(tmp_path / "photos", ["b.JPG", "a/z.png", "a/b/c.jpeg", ".hidden.png", ".trash/d.png", "A.png"])
    (tmp_path / "photos/notes.txt").write_text("no picture")
    source = read("folder", Path("photos"), tmp_path / "out")
    files = ["A.png", "a/b/c.jpeg", "a/z.png", "b.JPG"]
    assert source.images["file"].to_pylist() == files
    ids = source.images["image_id"].to_numpy()
    assert source.names.texts("image_id", ids).to_pylist() == files
    assert ids.tolist() == [int(hashlib.sha256(one.encode()).hexdigest()[:16], 16) // 2 for one in files]
    assert source.images["sha256"].to_pylist() == [
        hashlib.sha256((tmp_path / "photos" / one).read_bytes()).hexdigest() for one in files
    ]
    assert set(source.images["split"].to_pylist()) == {"test"}
    assert source.images["width"].to_pylist() == [8] * 4
    assert (source.captions.num_rows, source.left_out, source.broken) == (0, [], [])


def test_what_is_not_there_is_not_counted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pictures(Path("photos"), ["a.png", "b.png"])
    prepare("folder", "photos")
    assert "prepare tiny: test 2 images; repeated: 0 images; " in capsys.readouterr().err


def test_upright_animated_and_equal_pictures(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    (folder / "turned.jpg").write_bytes(_saved("JPEG", exif=exif))
    (folder / "modern.avif").write_bytes(_saved("AVIF"))
    frames = [Image.new("RGB", (5, 7), colour) for colour in ("red", "blue")]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    shutil.copy(folder / "turned.jpg", folder / "turned again.jpg")
    rows = {row["file"]: row for row in read("folder", Path("photos"), tmp_path / "out").images.to_pylist()}
    assert [(row["width"], row["height"]) for row in rows.values()] == [(16, 8), (5, 7), (8, 16), (8, 16)]
    assert rows["turned.jpg"]["sha256"] == rows["turned again.jpg"]["sha256"]
    assert rows["turned.jpg"]["image_id"] != rows["turned again.jpg"]["image_id"]


def test_a_heic_picture_needs_its_plugin(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.heic").write_bytes(struct.pack(">I", 24) + b"ftypheic\0\0\0\0mif1heic" + b"\0" * 40)
    (broken,) = read("folder", Path("photos"), tmp_path / "out").broken
    assert broken == "1.heic is a HEIC picture, which needs the package pillow-heif: pip install 'vse-pipe[heic]'"


def test_a_heic_picture(tmp_path):
    heif = pytest.importorskip("pillow_heif", reason="the extra heic is not installed")
    (tmp_path / "photos").mkdir()
    heif.from_pillow(Image.new("RGB", (64, 48), "red")).save(tmp_path / "photos/1.heic")
    source = read("folder", Path("photos"), tmp_path / "out")
    assert (source.broken, source.images["width"].to_pylist()) == ([], [64])


def test_broken_files_keep_their_rows_and_stop_what_does_not_skip_them(tmp_path, capfd):
    pictures(tmp_path / "photos", ["good.png"])
    for name, content in {
        "cut.jpg": _saved("JPEG")[:300],
        "empty.png": b"",
        "huge.png": bomb(20_000, 20_000),
        "text.jpg": b"hello",
    }.items():
        (tmp_path / "photos" / name).write_bytes(content)
    os.mkfifo(tmp_path / "photos/pipe.png")
    with pytest.raises(InputError, match=r"5 of 6 images below photos cannot be used: .*set on_error: skip"):
        prepare("folder", "photos")
    assert not (tmp_path / "data/prepare/tiny").exists()
    out = prepare("folder", "photos", on_error="skip")
    table = images.read(out)
    rows = {row["file"]: row for row in table.to_pylist()}
    assert [name for name, row in rows.items() if row["width"]] == ["good.png"]
    assert rows["pipe.png"]["sha256"] == UNREAD
    told = " ".join(capfd.readouterr().err.split())
    assert "cut.jpg does not decode" in told
    assert "empty.png is empty (0 bytes)" in told
    reasons = read("folder", Path("photos"), tmp_path / "out").broken
    assert any(one.startswith("huge.png has too many pixels") for one in reasons)
    assert "pipe.png is no regular file" in reasons


def test_a_file_that_cannot_be_read_is_one_line(tmp_path, monkeypatch):
    pictures(tmp_path / "photos", ["a.png", "b.png"])
    real = Path.read_bytes

    def denied(path):
        if path.name == "b.png":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert read("folder", Path("photos"), tmp_path / "out").broken == ["b.png cannot be read (Permission denied)"]


def test_links_inside_are_pictures_and_others_are_left_out(tmp_path, capfd):
    folder = tmp_path / "photos"
    pictures(folder, ["a.png", "deep/b.png"])
    pictures(tmp_path / "elsewhere", ["secret.png"])
    for name, target in {
        "inside.png": "deep/b.png",
        "out.png": "../elsewhere/secret.png",
        "gone.png": "nothing.png",
        "loop.png": "loop.png",
        "folder": "../elsewhere",
        "again": "deep",
    }.items():
        (folder / name).symlink_to(target)
    source = read("folder", Path("photos"), tmp_path / "out")
    assert source.images["file"].to_pylist() == ["a.png", "deep/b.png", "inside.png"]
    assert sorted(source.left_out) == [
        "photos/again: a link to a folder is not followed",
        "photos/folder: a link to a folder is not followed",
        "photos/gone.png: a link that leads to no file",
        "photos/loop.png: a link that leads to no file",
        "photos/out.png: a link that leads out of photos",
    ]
    prepare("folder", "photos")
    assert "prepare tiny: left out: photos/out.png: a link that leads out of photos" in " ".join(
        capfd.readouterr().err.split()
    )


def test_names_that_can_be_ids_are_and_others_are_left_out(tmp_path):
    folder = tmp_path / "photos"
    odd = [
        'she\'s "here".png',
        "caf\u00e9.png",
        "cafe\u0301.png",
        "\u0627\u0644 \U0001f408.png",
        "a,b;c|d.png",
        "<b>&.png",
        "-n.png",
    ]
    wrong = [
        "line\nbreak.png",
        "tail.png ",
        " lead.png",
        "x.tar::0:5::y.png",
        "x.png#xywh=1,2,3,4",
        "UPPER.png",
        f"{'y' * 197}.png",
    ]
    pictures(folder, [*odd, *(name for name in wrong if "#" not in name and not name.endswith(" ")), "upper.png"])
    Path(os.fsdecode(os.fsencode(folder) + b"/latin-\xe9.png")).write_bytes(picture(9))
    source = read("folder", Path("photos"), tmp_path / "out")
    assert source.images["file"].to_pylist() == sorted([*odd, "UPPER.png"])
    found = sorted(line.partition("photos/")[2] for line in source.left_out)
    assert found == sorted(
        [
            " lead.png: its path begins or ends with a space and cannot be an id; rename it",
            "latin-\\udce9.png': its name is not UTF-8; rename it",
            "line\\nbreak.png': its path holds a control character and cannot be an id; rename it",
            "upper.png: its path differs from 'UPPER.png' in capitals only and cannot be an id; rename it",
            "x.tar::0:5::y.png: its name reads as a place in another file; rename it",
            f"{'y' * 197}.png: its path is longer than 200 characters and cannot be an id; rename it",
        ]
    )
    out = prepare("folder", "photos")
    told, table = names.read(out), images.read(out)
    for number, file in zip(table["image_id"].to_pylist(), table["file"].to_pylist(), strict=True):
        assert (told.number("image_id", file), told.shown("image_id", number)) == (number, file)


def test_a_folder_that_cannot_be_listed_is_one_line(tmp_path, monkeypatch):
    pictures(tmp_path / "photos", ["a.png", "closed/b.png"])
    real = os.scandir

    def denied(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    source = read("folder", Path("photos"), tmp_path / "out")
    assert source.left_out == ["photos/closed: the folder cannot be read (Permission denied)"]
    assert source.images["file"].to_pylist() == ["a.png"]


def test_what_is_no_folder_of_pictures(tmp_path):
    with pytest.raises(MissingResource, match="source photos does not exist"):
        read("folder", Path("photos"), tmp_path / "out")
    (tmp_path / "photos").write_bytes(picture(1))
    with pytest.raises(InputError, match="source photos is no folder"):
        read("folder", Path("photos"), tmp_path / "out")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/notes.txt").write_text("")
    with pytest.raises(InputError, match=r"empty: no picture in it or in its folders, which end in .jpg, "):
        read("folder", Path("empty"), tmp_path / "out")


def test_no_captions_are_no_problem_for_check_and_what_needs_some_says_so(tmp_path):
    pictures(tmp_path / "photos", ["a.png"])
    out = prepare("folder", "photos")
    assert captions.read(out).num_rows == 0
    assert captions.absent(out)
    assert declarations()["prepare"].node(None, "tiny").problems(None) == []
    with pytest.raises(InputError, match=r"^train max: data set 'tiny' has no captions; "):
        captions.read(out, "train max")


LONG_AGO = 1_600_000_000


def _old(folder: Path) -> None:
    """As if nothing had been written in the last seconds, which is not yet trusted."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (LONG_AGO, LONG_AGO))


def _counted(monkeypatch) -> list[str]:
    """The files that are opened from now on."""
    opened: list[str] = []
    real = scan._open

    def counting(root, file, where):
        opened.append(file)
        return real(root, file, where)

    monkeypatch.setattr(scan, "_open", counting)
    return opened


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_only_new_and_changed_files_are_read_again_and_the_bytes_are_those_of_a_first_call(tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    pictures(folder, ["a.png", "b.png", "c/d.png"])
    _old(folder)
    out = prepare("folder", "photos")
    before, opened = _bytes(out), _counted(monkeypatch)
    prepare("folder", "photos")
    assert (opened, _bytes(out)) == ([], before)
    os.utime(folder / "a.png", (LONG_AGO + 9, LONG_AGO + 9))  # touched, and equal
    prepare("folder", "photos")
    assert (opened, _bytes(out)) == (["a.png"], before)
    (folder / "b.png").write_bytes(picture(77))
    (folder / "c/d.png").unlink()
    pictures(folder, ["e.png"])
    _old(folder)
    os.utime(folder / "b.png", (LONG_AGO + 5, LONG_AGO + 5))
    opened.clear()
    grown = _bytes(prepare("folder", "photos"))
    assert sorted(opened) == ["a.png", "b.png", "e.png"]
    shutil.rmtree(tmp_path / "data")
    assert _bytes(prepare("folder", "photos")) == grown != before


def test_a_file_of_the_last_seconds_is_read_again_since_its_time_may_not_tell(tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    pictures(folder, ["new.png", "old.png"])
    os.utime(folder / "old.png", (LONG_AGO, LONG_AGO))
    prepare("folder", "photos")
    opened = _counted(monkeypatch)
    prepare("folder", "photos")
    assert opened == ["new.png"]


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    pictures(folder, ["once.png", "always.png", "never.png"])
    _old(folder)
    turns = {"once.png": 1, "always.png": 99, "never.png": 0}
    real = scan._open

    def written_meanwhile(root, file, where):
        found = real(root, file, where)
        if turns[file] > 0:
            turns[file] -= 1
            (root / file).write_bytes(picture(100 + turns[file], (9 + turns[file] % 7, 6)))
        return found

    monkeypatch.setattr(scan, "_open", written_meanwhile)
    source = read("folder", Path("photos"), tmp_path / "out")
    rows = {row["file"]: row for row in source.images.to_pylist()}
    assert rows["once.png"]["sha256"] == hashlib.sha256((folder / "once.png").read_bytes()).hexdigest()
    assert rows["never.png"]["width"] == 8
    assert source.broken == ["always.png changes while it is read"]
    assert (rows["always.png"]["width"], rows["always.png"]["sha256"]) == (0, UNREAD)


def test_what_earlier_calls_have_seen_may_be_damaged_or_gone(tmp_path, monkeypatch, capfd):
    pictures(tmp_path / "photos", ["a.png"])
    _old(tmp_path / "photos")
    before = _bytes(prepare("folder", "photos"))
    seen = paths.seen(Path("photos")) / images.SEEN
    content = bytearray(seen.read_bytes())
    content[len(content) // 2] ^= 255
    seen.write_bytes(content)
    opened = _counted(monkeypatch)
    assert _bytes(prepare("folder", "photos")) == before
    assert opened == ["a.png"]
    assert "all pictures are read again" in " ".join(capfd.readouterr().err.split())
    prepare("folder", "photos")
    assert opened == ["a.png"]


def test_what_was_read_before_an_interruption_is_kept(tmp_path, monkeypatch):
    pictures(tmp_path / "photos", ["a.png", "b.png", "c.png"])
    _old(tmp_path / "photos")
    real = scan.readings

    def interrupted(root, files, places):
        for number, found in enumerate(real(root, files, places)):
            if number == 2:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr(folder_format, "readings", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare("folder", "photos")
    assert not paths.prepared("tiny").exists()
    monkeypatch.setattr(folder_format, "readings", real)
    opened = _counted(monkeypatch)
    prepare("folder", "photos")
    assert opened == ["c.png"]


@pytest.mark.acceptance
def test_killed_it_goes_on(tmp_path):
    """SIGKILL while pictures are read; the next call ends with the bytes of one that nobody disturbed."""
    folder = tmp_path / "photos"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (700, 700, 3), dtype=np.uint8)
    for number in range(60):
        pixels[0, 0, 0] = number
        Image.fromarray(pixels).save(folder / f"{number}.png", compress_level=0)
    code = "from tests.prepare._data import prepare; prepare('folder', 'photos')"
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": f"{ROOT}/pipeline:{ROOT}"}
    )
    building = tmp_path / "data/prepare/tiny.partial"
    while not building.exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = _bytes(prepare("folder", "photos"))
    shutil.rmtree(tmp_path / "data")
    assert _bytes(prepare("folder", "photos")) == found


def test_writing_what_was_seen_takes_a_small_part_of_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "_EVERY_S", 0.0)
    monkeypatch.setattr(tables, "write", lambda *_: written.append(time.sleep(0.05)))
    written, read_ = [], ((8, 6), 1, "0" * 64, None)
    seen = scan.ReadingCache(tmp_path / "seen")
    for number in range(50):
        seen.add(f"{number}.png", (1, LONG_AGO, LONG_AGO), read_)
    assert len(written) == 1
    seen._written_at -= 2.0
    seen.add("later.png", (1, LONG_AGO, LONG_AGO), read_)
    assert len(written) == 2
