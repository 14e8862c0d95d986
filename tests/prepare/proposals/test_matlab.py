"""Our reader of MATLAB's files against scipy's, on files that MATLAB itself wrote and on those that scipy writes."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy import io
from scipy.io import matlab as scipy_matlab

from tests.mutants import mutants, refusals
from vse_pipe.core import memory
from vse_pipe.core.damage import Damage
from vse_pipe.core.errors import InputError
from vse_pipe.prepare.engine import matlab
from vse_pipe.prepare.proposals.file import read_boxes

DAMAGE = Damage(InputError, "write it again")
# By MATLAB 6 and 7 on SPARC, which writes the high byte first, and on Linux; scipy brings them.
OF_MATLAB = Path(scipy_matlab.__file__).parent / "tests" / "data"
BY = ("6.1_SOL2", "6.5.1_GLNX86", "7.1_GLNX86", "7.4_GLNX86")
WRITTEN = [f"test{name}_{by}.mat" for by in BY for name in ("double", "matrix", "minus")] + ["testmulti_7.4_GLNX86.mat"]
TYPES = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]


@pytest.mark.parametrize("name", WRITTEN)
def test_what_matlab_wrote(name: str):
    path = OF_MATLAB / name
    wanted = [held for held, _, kind in io.whosmat(path) if kind == "double"]
    wanted = [held for held in wanted if not np.iscomplexobj(io.loadmat(path)[held])]
    found = matlab.read(path, wanted, DAMAGE)
    assert list(found) == wanted
    assert wanted
    for held, array in found.items():
        np.testing.assert_array_equal(array, io.loadmat(path)[held])


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_in_its_shape(tmp_path: Path, kind: str, compressed: bool):
    array = np.random.default_rng(0).integers(0, 2, (3, 2, 4)).astype(kind)
    io.savemat(tmp_path / "a.mat", {"other": "text", "x": array, "one": array[0, 0, 0]}, do_compression=compressed)
    found = matlab.read(tmp_path / "a.mat", ["x", "one", "no"], DAMAGE)
    np.testing.assert_array_equal(found["x"], array)
    assert found["one"].shape == (1, 1)
    assert set(found) == {"x", "one"}


def big(content: bytes) -> bytes:
    """A file with one 2 x 2 double ``x``, as scipy would not write it: the high byte first."""
    body = struct.pack(">IIII", 6, 8, 6, 0) + struct.pack(">IIii", 5, 8, 2, 2)
    body += struct.pack(">I", 1 << 16 | 1) + b"x\0\0\0" + struct.pack(">II", 9, 32) + content
    return b"m" * 124 + struct.pack(">H", 0x0100) + b"MI" + struct.pack(">II", 14, len(body)) + body


def test_the_high_byte_first(tmp_path: Path):
    array = np.array([[1.5, -2.0], [3.0, 4e9]])
    (tmp_path / "a.mat").write_bytes(big(array.astype(">f8").tobytes("F")))
    np.testing.assert_array_equal(io.loadmat(tmp_path / "a.mat")["x"], array)
    np.testing.assert_array_equal(matlab.read(tmp_path / "a.mat", ["x"], DAMAGE)["x"], array)


@pytest.mark.parametrize("compressed", [False, True])
def test_cells_are_the_boxes_of_a_picture_each(tmp_path: Path, compressed: bool):
    cell = np.empty((3, 1), object)
    cell[:, 0] = [np.arange(10.0).reshape(2, 5), np.zeros((0, 5)), np.full((1, 5), 7, np.uint16)]
    io.savemat(tmp_path / "a.mat", {"image": [[4, 5, 6]], "boxes": cell}, do_compression=compressed)
    names, boxes, scores = read_boxes(tmp_path / "a.mat", None)
    assert names.tolist() == ["4", "4", "6"]
    assert boxes.tolist() == [[0, 1, 2, 3], [5, 6, 7, 8], [7, 7, 7, 7]]
    assert scores.tolist() == [4, 9, 7]


def test_what_unpacks_to_more_than_memory_or_than_it_says(tmp_path: Path):
    path = tmp_path / "a.mat"
    head = bytes(124) + struct.pack("<H", 0x0100) + b"IM"
    for told, message in (
        (2**24, "takes 16 MiB"),
        (64, "a compressed element is not of 64 bytes"),
        (0, "is not of 0 bytes"),
    ):
        packed = zlib.compress(struct.pack("<II", 14, told) + bytes(2**24))
        path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)
        with memory.limit(8, "datasets.tiny.memory"), pytest.raises(InputError, match=message):
            matlab.read(path, ["x"], DAMAGE)


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_ends_in_one_line(tmp_path: Path, compressed: bool):
    path = tmp_path / "a.mat"
    cell = np.empty((2, 1), object)
    cell[:, 0] = [np.ones((2, 5)), np.ones((1, 5))]
    for boxes in (cell, np.ones((2, 4))):
        io.savemat(path, {"image": np.array([[4.0], [5.0]]), "boxes": boxes}, do_compression=compressed)
        whole = path.read_bytes()
        assert len(refusals(path, mutants(whole, 250, first=124), lambda: read_boxes(path, None))) > 50
