"""Tensors and memory maps on their way to another process: as what can be shared there, and as they lay in memory here."""

import mmap
import platform
import warnings
from pathlib import Path

import numpy as np

from vse_pipe.core import mapped, unchanged
from vse_pipe.core.errors import IntegrityError

_ALIGNED = 64


def packed(tensor) -> tuple[np.ndarray, list[int], str, str]:
    """An array, the order of the axes, dtype and device: with its axes in the order in which they lie in memory, which the last bits of a product can depend on."""
    import torch

    plain = tensor.detach().cpu()
    if plain.dtype == torch.bfloat16:  # numpy has none
        plain = plain.float()
    axes = sorted(range(plain.ndim), key=plain.stride, reverse=True)
    return plain.permute(axes).numpy(), axes, str(tensor.dtype).removeprefix("torch."), tensor.device.type


def unpacked(found: tuple[np.ndarray, list[int], str, str]):
    """Not to be written into where it is shared. A tensor for a parameter too: nothing is trained here."""
    import torch

    array, axes, dtype, device = found
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        tensor = torch.from_numpy(array)
    tensor = tensor.to(device, getattr(torch, dtype))
    if tensor.data_ptr() % _ALIGNED:  # the last bits of a product can depend on the address of its factors
        tensor = tensor.clone()
    return tensor.permute(np.argsort(axes).tolist())


def place(array: np.memmap) -> tuple | np.ndarray:
    """Of a view the numbers themselves: it does not say where in the file it begins."""
    if not isinstance(array.base, mmap.mmap) or array.filename is None:
        return np.array(array)
    order = "C" if array.flags.c_contiguous else "F"
    about = platform.node(), mapped.state_of(array)
    return str(array.filename), array.dtype.str, array.offset, array.shape, order, *about


def opened(found: tuple | np.ndarray) -> np.ndarray:
    """Of what ``place`` gave, wherever the file lies at the same path. Raises IntegrityError for another file than was meant: on other
    machines, which may have a copy, one of another size."""
    if isinstance(found, np.ndarray):
        return found
    name, dtype, offset, shape, order, node, before = found
    if platform.node() == node:
        unchanged.require(Path(name), before)
    elif (size := Path(name).stat().st_size) != before[1]:
        raise IntegrityError(f"{name}: {size} bytes on node {platform.node()}, {before[1]} on {node}; copy it again")
    return np.memmap(name, dtype, "r", offset, shape, order)
