"""Files of arrays: what is whole is read, and damage is one line."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.mutants import mutants, refusals
from vse_pipe.artifacts import features
from vse_pipe.core import arrays
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.ranking import files

KEPT = [np.arange(6).reshape(2, 3), np.asfortranarray(np.eye(2, 3)), np.array(["ab", ""]), np.zeros((0, 4))]
KEPT += [np.float32(3)]


@pytest.mark.parametrize("array", KEPT)
def test_whole_files_and_members_of_an_archive_are_read(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", a=array, b=array)
    members = arrays.read_npz(tmp_path / "a.npz", InputError, ["a"], ["c"])
    assert list(members) == ["a"]
    for found in (arrays.open_npy(tmp_path / "a.npy", InputError), members["a"]):
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype


READERS = {
    "features": lambda path: features.open_array(path),
    "vectors": lambda path: files.read_vectors(path, "image_id"),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_headers_end_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((3, 2)))
    found = refusals(path, mutants(path.read_bytes(), 300, last=100), lambda: READERS[name](path))
    assert all(isinstance(error, IntegrityError if name == "features" else InputError) for error in found)
    assert len(found) > 200


def _packed(path: Path, header: dict, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"fortran_order": False, **header})
        file.write(content)


PROMISED = [((2**40, 4), "<f8"), ((2**61, 8), "<f8"), ((-1, -4), "<f8"), ((2**40,), "<U0")]


@pytest.mark.parametrize(("shape", "kind"), PROMISED)
def test_members_that_promise_more_than_they_hold(tmp_path: Path, shape: tuple, kind: str) -> None:
    _packed(tmp_path / "a.npz", {"descr": kind, "shape": shape}, bytes(64))
    with pytest.raises(InputError, match=r"a\.npz: no \.npz file with plain arrays a \("):
        arrays.read_npz(tmp_path / "a.npz", InputError, ["a"])
