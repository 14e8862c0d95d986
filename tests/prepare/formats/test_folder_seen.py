"""Of a folder of pictures what has not changed is not read again, whatever ends a call."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.prepare._data import picture, pictures, prepare, read
from tests.rules.sources import ROOT
from vse_pipe.artifacts import images as artefact
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.core import tables
from vse_pipe.prepare import scan
from vse_pipe.prepare.formats import folder as folder_format
from vse_pipe.project import paths

LONG_AGO = 1_600_000_000


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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
    seen = paths.picture_cache(Path("photos")) / artefact.SEEN
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
    seen = scan.SeenPictures(tmp_path / "seen")
    for number in range(50):
        seen.add(f"{number}.png", (1, LONG_AGO, LONG_AGO), read_)
    assert len(written) == 1
    seen._written -= 2.0
    seen.add("later.png", (1, LONG_AGO, LONG_AGO), read_)
    assert len(written) == 2
