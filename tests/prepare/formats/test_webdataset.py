"""Tar shards are read in place; a shard that is not what it should be is named with its key."""

import gzip
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests import bombs
from tests.prepare._data import Members, captions_by_file, picture, read, sample, shard
from vse_pipe.core.errors import InputError
from vse_pipe.pictures import read as sources
from vse_pipe.pictures.address import parse
from vse_pipe.prepare.formats import webdataset
from vse_pipe.prepare.source import Source


def tar(folder: Path, members: Members, **options) -> Source:
    """The data set of one shard, all of it to train."""
    return whole(shard(folder / "t.tar", members), **options)


def whole(path: Path, **options) -> Source:
    return read("webdataset", path, path.parent, val=0.0, test=0.0, **options)


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


def test_captions_in_lines_and_in_json(tmp_path: Path) -> None:
    found = tar(tmp_path, sample("a", 0, "one\r\ntwo\r\n"), separator="\n")
    assert found.captions["text"].to_pylist() == ["one", "two"]
    told = [json.dumps({"caption": text}).encode() for text in ("alone", ["first", "second"])]
    members = [(f"{k}.{end}", content) for k in (0, 1) for end, content in (("jpg", picture(k)), ("json", told[k]))]
    found = tar(tmp_path, members, caption="json")
    assert found.captions["text"].to_pylist() == ["alone", "first", "second"]
    assert found.captions["image_id"].to_pylist() == [0, 1, 1]


def test_shares_are_drawn_by_key_whatever_the_shard(tmp_path: Path) -> None:
    keys, splits = [f"{number:03d}" for number in range(40)], []
    for name, size in (("one", 40), ("two", 20)):
        for start in range(0, 40, size):
            members = [part for key in keys[start : start + size] for part in sample(key, 0)]
            shard(tmp_path / name / f"{start}.tar", members)
        found = read("webdataset", tmp_path / name, tmp_path, train="*.tar", val=0.2, test=0.2)
        splits.append(found.images["split"].to_pylist())
    assert splits[0] == splits[1]
    assert set(splits[0]) == {"train", "val", "test"}
    with pytest.raises(ValidationError, match=r"must leave a share to train, got 0.5 \+ 0.5"):
        webdataset.Params(val=0.5, test=0.5)


def test_hidden_files_empty_shards_and_samples_without_a_picture_are_left_out(tmp_path: Path) -> None:
    """A Mac writes ``._`` members and shards."""
    hidden = [(f"._{name}", b"Mac OS X") for name, _ in sample("a", 0)]
    shard(tmp_path / "train-0.tar", [*hidden, *sample("./a", 0), *sample("b", 1)[1:]])
    shard(tmp_path / "train-1.tar", [])
    (tmp_path / "._train-0.tar").write_bytes(b"Mac OS X")
    found = read("webdataset", tmp_path, tmp_path, train="*.tar", val=0.0, test=0.0)
    assert found.captions["text"].to_pylist() == ["a cat"]
    assert [line.partition("/train-")[2] for line in found.left_out] == [
        "0.tar key 'b': has the files .txt, .cls, no image",
    ]


A, B = sample("a", 0), sample("b", 1)
BAD = [
    ("interleaved", [A[0], B[0], *A[1:], *B[1:]], "t.tar: key 'a' comes again after other keys"),
    ("same ending", [*A, A[0]], "t.tar: key 'a' has two files '.png'"),
    ("two images", [*A, ("a.jpg", b"")], "t.tar key 'a': has the files .png, .txt, .cls, .jpg; expected one image"),
    ("latin 1", [A[0], ("a.txt", b"caf\xe9")], "t.tar a.txt: not UTF-8 text"),
    ("long caption", [A[0], ("a.txt", bytes(2**20 + 1))], "t.tar a.txt: 1048577 bytes are no caption"),
    ("latin 1 name", sample("caf\udce9", 0), r"t.tar: the name 'caf\udce9.png' is not UTF-8"),
]


@pytest.mark.parametrize(("members", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_bad_samples(tmp_path: Path, members: Members, message: str) -> None:
    with pytest.raises(InputError) as caught:
        tar(tmp_path, members)
    assert message in str(caught.value)


NONE = "(.json is no JSON|.json has no 'caption'|'1' is no caption)"


@pytest.mark.parametrize(("written", "message"), [
    *((written, NONE) for written in (b"{", b"[]", b'{"text": "x"}', b'{"caption": [1]}')),
    pytest.param(b"[" * 10**5, NONE, id="deep"),
    (rb'{"caption": "a \ud83d cat"}', "the caption .* holds half of a surrogate pair"),
])  # fmt: skip
def test_bad_json(tmp_path: Path, written: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"t.tar key 'a': {message}"):
        tar(tmp_path, [A[0], ("a.json", written)], caption="json")


def _header(kind: bytes, size: int = 0, content: bytes = b"", times: int = 1) -> bytes:
    info = tarfile.TarInfo("a.jpg")
    info.type, info.size, info.linkname = kind, size, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
    return (info.tobuf(tarfile.GNU_FORMAT) + content) * times + bytes(1024)


def _damaged(content: bytearray) -> bytes:
    place = content.index(b"b.png")
    content[place : place + 200] = b"\xff" * 200
    return content


def _backwards(content: bytearray) -> bytes:
    """A size below zero, in base 256 as GNU tar writes large ones; the header's sum is right."""
    content[124:136] = (-1024).to_bytes(12, "big", signed=True)
    content[148:156] = b" " * 8
    content[148:156] = f"{sum(content[:512]):06o}\0 ".encode()
    return content


DAMAGE = {
    "link": (lambda _: _header(tarfile.SYMTYPE), "'a.jpg' is a link or a special file"),
    "headers about headers": (lambda _: _header(tarfile.XHDTYPE, times=5000), "t.tar: not a whole tar file"),
    "long headers": (lambda _: _header(tarfile.XHDTYPE, 2**18, b"9 x=y\n" * 2**15 + bytes(2**16), 20),
                     "t.tar: not a whole tar file"),
    "cut between members": (lambda content: content[:1024], "there is no end-of-archive mark"),
    "damaged header": (_damaged, "damaged, or cut off"),
    "size below zero": (_backwards, "t.tar: "),
    "empty": (lambda _: b"", "not a whole tar file"),
    "compressed": (gzip.compress, "not a whole tar file"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_shards_are_named(tmp_path: Path, spoil: Callable, message: str) -> None:
    path = shard(tmp_path / "t.tar", [*A, *B])
    path.write_bytes(spoil(bytearray(path.read_bytes())))
    with pytest.raises(InputError) as caught:
        whole(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_shards_that_do_not_fit_the_patterns(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no file matches val: 'dev\*.tar'"):
        read("webdataset", folder, folder, val="dev*.tar")
    with pytest.raises(InputError, match=r"train-0.tar: the patterns of train and val both match it"):
        read("webdataset", folder, folder, val="*-0.tar")
    (folder / "train-2.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"train-2.tar.gz: expected a file that ends in .tar"):
        read("webdataset", folder, folder, train="train*")
    (folder / "below").mkdir()
    (folder / "below/train.tar").symlink_to(folder / "train-0.tar")
    linked = read("webdataset", folder / "below", folder, val=0.1, test=0.1)
    assert linked.images["file"][0].as_py().startswith("train.tar::")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME], ids=["pax", "gnu"])
def test_a_header_without_end_is_not_read(tmp_path: Path, kind: bytes) -> None:
    """4 GB of name, in a file that takes a block on the disk."""
    path = tmp_path / "t.tar"
    path.write_bytes(_header(kind, 2**32))
    os.truncate(path, 2**32 + 4096)
    ended, peak = bombs.in_child(lambda: whole(path), most=2**30)
    reason = "not a whole tar file (a header of more than 1048576 bytes at byte"
    assert ended.startswith(f"InputError: {path}: {reason}")
    assert peak < 20
