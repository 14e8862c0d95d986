"""Whatever bytes a .npy file has, it is mapped as it is or refused in one line."""

import gc
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.hostile import Hostile
from tests.mutants import mutants, refusals
from vse_pipe.artifacts import features, pairs
from vse_pipe.core import arrays
from vse_pipe.core.errors import Damage, InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.evaluate import readers
from vse_pipe.prepare.source import open_array

DAMAGE = Damage(InputError, "copy it again")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.zeros((0, 4)),
        np.float32(3),
        np.array(["a"]),
    ],
)
def test_whole_files_are_mapped(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    found = arrays.open_npy(tmp_path / "a.npy", DAMAGE)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_objects_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([Hostile(tmp_path / "pwned")], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="holds pickled Python objects, which are never loaded"):
        arrays.open_npy(tmp_path / "a.npy", DAMAGE)
    assert not (tmp_path / "pwned").exists()


READERS = {
    "features": lambda path: features.open_array(path),
    "prepare": lambda path: open_array(path),
    "vectors": lambda path: readers.npy_vectors(path),
    "noise": lambda path: pairs.read_noise_index(path, sha256(path), 3, 9),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_headers_end_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones((3, 2)))
    found = refusals(path, mutants(path.read_bytes(), 300, last=100), lambda: READERS[name](path))
    assert all(isinstance(error, IntegrityError if name == "features" else InputError) for error in found)
    assert len(found) > 200


def test_threads_read_headers_side_by_side(tmp_path: Path) -> None:
    """Each at a depth of its own, and a collector that lets the next one in at every step: so Python 3.11's parser miscounts."""
    np.save(tmp_path / "a.npy", np.ones((3, 2)))

    def opened(depth: int) -> np.ndarray:
        return opened(depth - 1) if depth else arrays.open_npy(tmp_path / "a.npy", DAMAGE)

    between = sys.getswitchinterval(), gc.get_threshold()
    gc.callbacks.append(lambda *_: sum(range(50)))
    sys.setswitchinterval(1e-6)
    gc.set_threshold(5)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(opened, [*range(8)] * 250))
    finally:
        sys.setswitchinterval(between[0])
        gc.set_threshold(*between[1])
        gc.callbacks.pop()
    assert all(np.array_equal(one, np.ones((3, 2))) for one in found)


def _packed(path: Path, header: dict, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"fortran_order": False, **header})
        file.write(content)


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.asfortranarray(np.eye(2, 3)), np.array(["ab", ""]), np.zeros((0, 4)), np.float32(3)])  # fmt: skip
def test_members_of_an_archive(tmp_path: Path, array: np.ndarray) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=array, b=array)
    found = arrays.read_npz(tmp_path / "a.npz", DAMAGE, ["a"], ["c"])
    assert list(found) == ["a"]
    np.testing.assert_array_equal(found["a"], array)
    assert found["a"].dtype == array.dtype


@pytest.mark.parametrize(
    ("shape", "kind"), [((2**40, 4), "<f8"), ((2**61, 8), "<f8"), ((-1, -4), "<f8"), ((2**40,), "<U0")]
)
def test_members_that_promise_more_than_they_hold(tmp_path: Path, shape: tuple, kind: str) -> None:
    _packed(tmp_path / "a.npz", {"descr": kind, "shape": shape}, bytes(64))
    with pytest.raises(InputError, match=r"a\.npz: a\.npy: not a whole \.npy file \(\d+ bytes, its header promises"):
        arrays.read_npz(tmp_path / "a.npz", DAMAGE, ["a"])


def test_text_without_letters_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<U0", "fortran_order": False, "shape": (2**45,)})
    with pytest.raises(InputError, match=r"not a whole \.npy file"):
        arrays.open_npy(tmp_path / "a.npy", DAMAGE)


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_a_tensor_lies_in_memory_as_it_did(axes: tuple, dtype: torch.dtype) -> None:
    tensor = torch.randn(4, 3, 5, 2).mul(9).to(dtype).permute(axes)
    back = arrays.unpack(arrays.pack(tensor))
    assert (back.stride(), back.dtype) == (tensor.stride(), dtype)
    assert torch.equal(back, tensor)


def test_a_memory_map_goes_as_its_file_and_a_part_of_one_as_numbers(tmp_path: Path) -> None:
    np.arange(12.0).tofile(tmp_path / "numbers")
    whole = np.memmap(tmp_path / "numbers", np.float64, "r", 16, (5, 2))
    assert arrays.place(whole)[0] == str(tmp_path / "numbers")
    for array in (whole, whole[2:], whole[:, 1]):
        assert np.array_equal(arrays.open_array(arrays.place(array)), array)
    assert isinstance(arrays.place(whole[2:]), np.ndarray)


@pytest.mark.parametrize(("node", "shape"), [(None, (3, 2)), (None, (4, 2)), ("elsewhere", (4, 2))])
def test_another_file_in_the_place_of_a_memory_map_is_refused(tmp_path: Path, monkeypatch, node, shape: tuple) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    array = arrays.open_npy(tmp_path / "a.npy", Damage(InputError, ""))
    np.save(tmp_path / "b.npy", np.ones(shape))
    (tmp_path / "b.npy").replace(tmp_path / "a.npy")
    found = arrays.place(array)
    if node:
        monkeypatch.setattr("platform.node", lambda: node)
    with pytest.raises(
        IntegrityError, match=r"a\.npy: (written anew while it was read|192 bytes on node elsewhere, 176 on)"
    ):
        arrays.open_array(found)


def test_a_copy_on_another_machine_is_read(tmp_path: Path, monkeypatch) -> None:
    np.arange(12.0).tofile(tmp_path / "numbers")
    found = arrays.place(np.memmap(tmp_path / "numbers", np.float64, "r"))
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    (tmp_path / "copy").write_bytes((tmp_path / "numbers").read_bytes())
    (tmp_path / "copy").replace(tmp_path / "numbers")
    assert arrays.open_array(found).tolist() == list(range(12))
