"""What tensors and memory maps are in another process."""

from pathlib import Path

import numpy as np
import pytest
import torch

from vse_pipe.core import arrays
from vse_pipe.core.errors import Damage, InputError, IntegrityError


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
