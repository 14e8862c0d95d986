"""Tar shards are read in place; a shard that is not what it should be is named with its key."""

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import ValidationError

from tests import bombs
from tests.prepare._data import captions_by_file, picture, read
from vse_pipe.core.errors import InputError
from vse_pipe.pictures import read as sources
from vse_pipe.pictures.address import parse
from vse_pipe.prepare.formats import webdataset

Members = list[tuple[str, bytes]]


def shard(path: Path, members: Members) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def sample(key: str, number: int, caption: str = "a cat\n") -> Members:
    return [(f"{key}.png", picture(number)), (f"{key}.txt", caption.encode()), (f"{key}.cls", b"7")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shard(tmp_path / "train-0.tar", [*sample("a", 0), *sample("b/c", 1, "NA"), ("b/c.seg.png", b"mask")])
    shard(tmp_path / "train-1.tar", sample("a", 2))
    shard(tmp_path / "val-0.tar", sample("e", 3))
    shard(tmp_path / "test-0.tar", sample("../f", 4, "two\nlines"))
    return tmp_path


def test_members_are_read_in_place(folder: Path) -> None:
    found = read("webdataset", folder, folder / "out")
    files = found.images["file"].to_pylist()
    contents = [sources.content(Path(found.root), file, "x") for file in files]
    assert contents == [picture(number) for number in range(5)]
    assert [parse(file).name for file in files] == ["a.png", "c.png", "a.png", "e.png", "f.png"]
    assert found.images["split"].to_pylist() == ["train"] * 3 + ["val", "test"]
    assert found.images["image_id"].to_pylist() == [0, 1, 2, 3, 4]
    assert found.images["width"].to_pylist() == [8] * 5
    assert list(captions_by_file(found).values()) == [["a cat"], ["NA"], ["a cat"], ["a cat"], ["two\nlines"]]
    assert not list((folder / "out").iterdir())


def test_captions_in_lines_and_in_json(tmp_path: Path) -> None:
    shard(tmp_path / "t.tar", sample("a", 0, "one\r\ntwo\r\n"))
    found = read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0, lines=True)
    assert found.captions["text"].to_pylist() == ["one", "two"]
    told = [json.dumps({"caption": text}).encode() for text in ("alone", ["first", "second"])]
    members = [(f"{k}.{end}", content) for k in (0, 1) for end, content in (("jpg", picture(k)), ("json", told[k]))]
    shard(tmp_path / "j.tar", members)
    found = read("webdataset", tmp_path / "j.tar", tmp_path, val=0.0, test=0.0, caption="json")
    assert found.captions["text"].to_pylist() == ["alone", "first", "second"]
    assert found.captions["image_id"].to_pylist() == [0, 1, 1]


def test_shares_are_drawn_by_key_whatever_the_shard(tmp_path: Path) -> None:
    keys = [f"{number:03d}" for number in range(40)]
    shard(tmp_path / "one/all.tar", [part for key in keys for part in sample(key, 0)])
    for number in (0, 1):
        half = keys[number * 20 : number * 20 + 20]
        shard(tmp_path / f"two/{number}.tar", [part for key in half for part in sample(key, 0)])
    splits = [
        read("webdataset", tmp_path / name, tmp_path, train="*.tar", val=0.2, test=0.2).images["split"].to_pylist()
        for name in ("one", "two")
    ]
    assert splits[0] == splits[1]
    assert set(splits[0]) == {"train", "val", "test"}


def test_a_broken_image_is_left_to_the_stage(tmp_path: Path) -> None:
    shard(tmp_path / "t.tar", [*sample("a", 0), ("b.jpg", b"<html>"), ("b.txt", b"x")])
    found = read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0)
    assert len(found.broken) == 1
    assert found.broken[0].startswith("t.tar key 'b': t.tar::")
    assert found.broken[0].endswith("is no image in a known format (6 bytes, the first are b'<html>')")


A, B = sample("a", 0), sample("b", 1)
BAD = [
    ("interleaved", [A[0], B[0], *A[1:], *B[1:]], "t.tar: key 'a' comes again after other keys"),
    ("repeated", [*A, *B, *A], "t.tar: key 'a' comes again after other keys"),
    ("same ending", [*A, A[0]], "t.tar: key 'a' has two files '.png'"),
    ("two images", [*A, ("a.jpg", picture(1))], "t.tar key 'a': has the files .png, .txt, .cls, .jpg; expected one image"),
    ("no image", A[1:], "t.tar key 'a': has the files .txt, .cls; expected one image and .txt"),
    ("no caption", A[:1], "t.tar key 'a': has the files .png; expected one image and .txt"),
    ("empty caption", sample("a", 0, " \n"), "t.tar key 'a': the caption is empty"),
    ("latin 1", [A[0], ("a.txt", b"caf\xe9")], "t.tar a.txt: not UTF-8 text"),
    ("long caption", [A[0], ("a.txt", bytes(2**20 + 1))], "t.tar a.txt: 1048577 bytes are no caption"),
    ("latin 1 name", sample("caf\udce9", 0), r"t.tar: the name 'caf\udce9.png' is not UTF-8"),
    ("nothing", [], "t.tar: holds no samples"),
]  # fmt: skip


@pytest.mark.parametrize(("members", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_samples(tmp_path: Path, members: Members, message: str) -> None:
    shard(tmp_path / "t.tar", members)
    with pytest.raises(InputError) as caught:
        read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "written", [b"{", b"[]", b'{"text": "x"}', b'{"caption": []}', b'{"caption": [1]}', b"[" * 10**5]
)
def test_bad_json(tmp_path: Path, written: bytes) -> None:
    shard(tmp_path / "t.tar", [A[0], ("a.json", written)])
    with pytest.raises(InputError, match=r"t.tar key 'a': .json (is no JSON|has no string)"):
        read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0, caption="json")


def test_headers_about_headers_without_end(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    (tmp_path / "t.tar").write_bytes(header.tobuf() * 5000 + bytes(1024))
    with pytest.raises(InputError, match=r"t.tar: not a whole tar file"):
        read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0)


def test_half_a_surrogate_pair_in_json(tmp_path: Path) -> None:
    shard(tmp_path / "t.tar", [A[0], ("a.json", rb'{"caption": "a \ud83d cat"}')])
    with pytest.raises(InputError, match=r"t.tar key 'a': the caption .* holds half of a surrogate pair"):
        read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0, caption="json")


def _link(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("a.jpg")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)


def _cut(path: Path, size: int) -> None:
    path.write_bytes(shard(path, [*A, *B]).read_bytes()[:size])


def _damaged(path: Path) -> None:
    content = bytearray(shard(path, [*A, *B]).read_bytes())
    place = content.index(b"b.png")
    content[place : place + 200] = b"\xff" * 200
    path.write_bytes(content)


def _backwards(path: Path) -> None:
    """A size below zero, in base 256 as GNU tar writes large ones; the header's sum is right."""
    content = bytearray(shard(path, A).read_bytes())
    content[124:136] = (-1024).to_bytes(12, "big", signed=True)
    content[148:156] = b" " * 8
    content[148:156] = f"{sum(content[:512]):06o}\0 ".encode()
    path.write_bytes(content)


DAMAGE = [
    ("link", _link, "'a.jpg' is a link or a special file"),
    ("cut in a member", lambda path: _cut(path, 700), "not a whole tar file"),
    ("cut between members", lambda path: _cut(path, 1024), "there is no end-of-archive mark"),
    ("damaged header", _damaged, "damaged, or cut off"),
    ("size below zero", _backwards, "t.tar: "),
    ("no tar", lambda path: path.write_bytes(b"<html>" * 999), "not a whole tar file"),
    ("empty", lambda path: path.write_bytes(b""), "not a whole tar file"),
    ("compressed", lambda path: path.write_bytes(gzip.compress(shard(path, A).read_bytes())), "not a whole tar file"),
]


@pytest.mark.parametrize(("make", "message"), [case[1:] for case in DAMAGE], ids=[case[0] for case in DAMAGE])
def test_damaged_shards_are_named(tmp_path: Path, make, message: str) -> None:
    make(tmp_path / "t.tar")
    with pytest.raises(InputError) as caught:
        read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0)
    assert str(tmp_path / "t.tar") in str(caught.value)
    assert message in str(caught.value)


def test_shards_that_do_not_fit_the_patterns(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no file matches val: 'dev\*.tar'; name others, or the share"):
        read("webdataset", folder, folder, val="dev*.tar")
    with pytest.raises(InputError, match=r"train-0.tar: the patterns of train and val both match it"):
        read("webdataset", folder, folder, val="*-0.tar")
    (folder / "train-2.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"train-2.tar.gz: expected a file that ends in .tar"):
        read("webdataset", folder, folder, train="train*")
    (folder / "below").mkdir()
    (folder / "below/train.tar").symlink_to(folder / "train-0.tar")
    with pytest.raises(InputError, match=r"train.tar' lies outside its root"):
        read("webdataset", folder / "below", folder, val=0.1, test=0.1)


def test_shares_must_leave_some_to_train() -> None:
    with pytest.raises(ValidationError, match=r"must leave a share to train, got 0.5 \+ 0.5"):
        webdataset.Params(val=0.5, test=0.5)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME], ids=["pax", "gnu"])
def test_a_header_without_end_is_not_read(tmp_path: Path, kind: bytes) -> None:
    """4 GB of name, in a file that takes a block on the disk."""
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 2**32
    (tmp_path / "t.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT))
    os.truncate(tmp_path / "t.tar", 2**32 + 4096)
    ended, peak = bombs.in_child(
        lambda: read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0), most=2**30
    )
    assert ended.startswith(
        f"InputError: {tmp_path}/t.tar: not a whole tar file (a header of more than 1048576 bytes at byte"
    )
    assert peak < 20


def test_many_long_headers(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 2**18
    (tmp_path / "t.tar").write_bytes((header.tobuf() + b"9 x=y\n" * 2**15 + bytes(2**16)) * 20)
    with pytest.raises(InputError, match=r"t\.tar: not a whole tar file"):
        read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0)


def test_members_that_look_like_addresses(tmp_path: Path) -> None:
    shard(tmp_path / "t.tar", [("d/x.tar::1:2::y.png", picture(1)), ("d/x.txt", b"a cat")])
    found = read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0, images=["tar::1:2::y.png"])
    assert sources.content(Path(found.root), found.images["file"][0].as_py(), "x") == picture(1)
    (tmp_path / "t.tar").rename(tmp_path / "x.tar::1:2::t.tar")
    with pytest.raises(InputError, match=r"x\.tar::1:2::t\.tar: its name reads as a place in 'x\.tar'; rename it"):
        read("webdataset", tmp_path / "x.tar::1:2::t.tar", tmp_path, val=0.0, test=0.0)


def _zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


def _zip(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.png", content)
    return stream.getvalue()


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, _zstd, _zip], ids=lambda pack: pack.__name__
)
def test_compressed_shards_are_never_unpacked(tmp_path: Path, pack) -> None:
    """Zeros, by the name of a shard."""
    (tmp_path / "t.tar").write_bytes(pack(bytes(2**26)))
    ended, peak = bombs.in_child(lambda: read("webdataset", tmp_path / "t.tar", tmp_path, val=0.0, test=0.0))
    assert ended.startswith(f"InputError: {tmp_path}/t.tar: not a whole tar file"), ended
    assert peak < 20
