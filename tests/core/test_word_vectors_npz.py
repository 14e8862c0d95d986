"""Word vectors in .npz files: of another make, of strange members, cut, packed beyond memory."""

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.extract.texts.project import WORDS, as_npz, vectors
from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.core.word_vectors import read

ARRAY = vectors()


def test_an_npz_that_packs_gigabytes_is_not_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "v.npz", words=np.array(["dog"]), vectors=np.zeros((1, 2**24), np.float32))
    with (
        memory.limit(16, "some.memory"),
        pytest.raises(InputError, match=r"v\.npz: takes 65 MiB in memory, more than the 16"),
    ):
        read(tmp_path / "v.npz", {"dog"})


@pytest.mark.parametrize(
    "arrays",
    [
        {"words": np.array(["dog"], dtype=object), "vectors": ARRAY[:1]},
        {"words": np.array(["dog", "red"]), "vectors": ARRAY[:1]},
        {"words": np.array([1]), "vectors": ARRAY[:1]},
        {"words": np.array(["dog"]), "vectors": np.array([1.0])},
        {"words": np.array(["dog"]), "other": ARRAY[:1]},
        {"words": np.array(["dog"]), "vectors": np.full((1, 2), np.nan)},
    ],
)
def test_npz_files_of_another_make(tmp_path: Path, arrays: dict) -> None:
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(InputError, match=r"v\.npz"):
        read(tmp_path / "v.npz", {"dog"})


def npy(header: str, content: bytes = b"") -> bytes:
    """A .npy file of this header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + content


def as_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


GOOD = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", bytes(8))
STRANGE = {
    "no .npy inside": {"words.npy": b"dog", "vectors.npy": b"1 2"},
    "more than any memory": {
        "words.npy": npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1" + "0" * 17 + ",)}"),
        "vectors.npy": GOOD,
    },
    "more than any number": {
        "words.npy": npy("{'descr': '<U3', 'fortran_order': False, 'shape': (" + "9" * 30 + ",)}"),
        "vectors.npy": GOOD,
    },
    "a header that is no header": {"words.npy": npy("((((((("), "vectors.npy": GOOD},
    "no such character": {
        "words.npy": npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", b"\xff\xff\xff\x7f"),
        "vectors.npy": GOOD,
    },
    "no dimensions": {
        "words.npy": npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", "dog".encode("utf-32-le")),
        "vectors.npy": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0)}"),
    },
}


@pytest.mark.parametrize("fault", STRANGE)
def test_npz_files_of_strange_members(tmp_path: Path, fault: str) -> None:
    with pytest.raises(InputError, match=r"v\.npz: ") as caught:
        read(as_zip(tmp_path / "v.npz", STRANGE[fault]), {"dog"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("place", "value"), [(6, 1), (8, 99)], ids=["encrypted", "unknown compression"])
def test_npz_files_that_cannot_be_unpacked(tmp_path: Path, place: int, value: int) -> None:
    path = as_npz(tmp_path / "v.npz", WORDS, ARRAY)
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x03\x04")
    content[start + place] = value
    start = content.index(b"PK\x01\x02")
    content[start + place + 2] = value
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"v\.npz: no \.npz file with plain arrays"):
        read(path, {"dog"})


def test_an_npy_file_under_the_name_of_an_npz(tmp_path: Path) -> None:
    with (tmp_path / "v.npz").open("wb") as file:
        np.save(file, ARRAY)
    with pytest.raises(InputError, match=r"v\.npz: no \.npz file with plain arrays"):
        read(tmp_path / "v.npz", {"dog"})
