"""What tensors and memory maps are in another process."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.core import sent


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_a_tensor_lies_in_memory_as_it_did(axes: tuple, dtype: torch.dtype) -> None:
    tensor = torch.randn(4, 3, 5, 2).mul(9).to(dtype).permute(axes)
    back = sent.unpacked(sent.packed(tensor))
    assert (back.stride(), back.dtype) == (tensor.stride(), dtype)
    assert torch.equal(back, tensor)


def test_a_memory_map_goes_as_its_file_and_a_part_of_one_as_numbers(tmp_path: Path) -> None:
    np.arange(12.0).tofile(tmp_path / "numbers")
    whole = np.memmap(tmp_path / "numbers", np.float64, "r", 16, (5, 2))
    assert sent.place(whole)[0] == str(tmp_path / "numbers")
    for array in (whole, whole[2:], whole[:, 1]):
        assert np.array_equal(sent.opened(sent.place(array)), array)
    assert isinstance(sent.place(whole[2:]), np.ndarray)
