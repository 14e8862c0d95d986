"""One image's bytes from a file, a tar shard or a Parquet file; never from outside of the root, never too many."""

import io
import os
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.core.errors import InputError, IntegrityError, UnreadableImage
from vse_pipe.pictures import images, read
from vse_pipe.pictures.address import Cell, TarMember


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file, a shard with it at the address of its one member, and a Parquet file with bytes, structs and a null."""
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"bytes of a")
    with tarfile.open(folder / "s.tar", "w") as tar:
        info = tarfile.TarInfo("a.jpg")
        info.size = 10
        tar.addfile(info, io.BytesIO(b"bytes of a"))
    structs = [{"bytes": b"in a struct", "path": "../../etc/passwd"}, {"bytes": None, "path": "a.jpg"}]
    pq.write_table(pa.table({"image": [b"bytes of a", None], "hub": structs}), folder / "p.parquet")
    (tmp_path / "secret.tar").write_bytes(bytes(4096))
    (folder / "link.tar").symlink_to("../secret.tar")
    return folder


ADDRESSES = [
    ("a.jpg", b"bytes of a"),
    (str(TarMember("s.tar", 512, 10, "a.jpg")), b"bytes of a"),
    (str(TarMember("s.tar", 513, 3, "any name")), b"yte"),
    (str(Cell("p.parquet", 0, "image")), b"bytes of a"),
    (str(Cell("p.parquet", 0, "hub")), b"in a struct"),
]


@pytest.mark.parametrize(("file", "expected"), ADDRESSES)
def test_bytes(root: Path, file: str, expected: bytes) -> None:
    assert read.content(root, file, "row 0") == expected
    assert images.page_bytes(root / file) == expected


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("gone.jpg", "does not exist"),
        ("a.jpg/b.jpg", "cannot be read (Not a directory)"),
        (".", "is a folder"),
        ("pipe.jpg", "is no regular file"),
        ("huge.jpg", f"has {2**30} bytes, more than the {read.LARGEST} that are read"),
        (str(TarMember("s.tar", 0, 2**30, "a.jpg")), f"has {2**30} bytes, more than"),
        (str(Cell("p.parquet", 1, "image")), "holds no bytes in column 'image'"),
        (str(Cell("p.parquet", 1, "hub")), "holds no bytes in column 'hub'"),
    ],
)
def test_what_cannot_be_read_has_a_reason(root: Path, file: str, reason: str) -> None:
    os.mkfifo(root / "pipe.jpg")
    with (root / "huge.jpg").open("wb") as sparse:
        sparse.truncate(2**30)
    with pytest.raises(UnreadableImage) as caught:
        read.content(root, file, "row 0")
    assert caught.value.reason.startswith(reason)
    assert images.page_bytes(root / file) is None


@pytest.mark.parametrize(
    ("file", "error", "message"),
    [
        ("../secret.tar", InputError, "row 0: file '../secret.tar' lies outside its root"),
        (str(TarMember("../secret.tar", 0, 9, "x")), InputError, "lies outside its root"),
        (str(TarMember("link.tar", 0, 9, "x")), InputError, "lies outside its root"),
        (str(Cell("/etc/p.parquet", 0, "image")), InputError, "lies outside its root"),
        (str(TarMember("gone.tar", 0, 9, "x")), InputError, "row 0: shard .*gone.tar cannot be read"),
        (
            str(TarMember("s.tar", 10**6, 9, "x")),
            IntegrityError,
            "s.tar ends before x does; .*run `vse-pipe prepare` again",
        ),
        (str(Cell("gone.parquet", 0, "image")), InputError, "gone.parquet: cannot be read"),
        (str(Cell("p.parquet", 2, "image")), IntegrityError, "p.parquet has 2 rows, no row 2; .*again"),
        (str(Cell("p.parquet", 0, "picture")), IntegrityError, "p.parquet has no column 'picture'"),
        (str(Cell("s.tar.parquet", 0, "image")), InputError, "s.tar.parquet: damaged Parquet file"),
    ],
)
def test_refused(root: Path, file: str, error: type, message: str) -> None:
    (root / "s.tar.parquet").write_bytes((root / "s.tar").read_bytes())
    with pytest.raises(error, match=message) as caught:
        read.content(root, file, "row 0")
    assert not isinstance(caught.value, UnreadableImage)


def test_a_name_with_parents_in_a_member_opens_nothing_else(root: Path) -> None:
    assert read.content(root, str(TarMember("s.tar", 512, 10, "../../secret.tar")), "row 0") == b"bytes of a"
