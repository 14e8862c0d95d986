"""The device that a command computes on, its seeds, and the weights of its networks."""

import contextlib
import ctypes
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError  # noqa: TID251 (what torch raises where it refuses to unpickle)
from typing import TypeVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError, UsageError, damaged
from vse_pipe.core.seeds import derive_seed

KINDS = ["cuda"]


def resolve_device(name: str) -> torch.device:
    """The device ``auto`` (an NVIDIA GPU if there is one), ``cpu``, ``cuda`` or ``cuda:N``. From
    then on equal inputs have equal bytes on CUDA, float32 is not rounded to TF32, and an operation
    without a deterministic kernel warns. Raises UsageError for any other name and a missing GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = name.partition(":")
    if name != "cpu" and (kind not in KINDS or not (number or "0").isdecimal() or name.endswith(":")):
        raise UsageError(f"unknown device '{name}'; known: auto, cpu, cuda or cuda:N")
    if kind != "cpu" and int(number or 0) >= (count := torch.get_device_module(kind).device_count()):
        raise UsageError(f"device '{name}' is not there: this machine has {count} {kind} devices; use auto or cpu")
    if kind == "cuda":
        # cuBLAS reads the variable at the first product.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = False, True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_deterministic_debug_mode("warn")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return torch.device(name)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device, without a wait for a GPU: what is larger than the 64 KiB that the
    driver keeps on their way starts from pinned memory."""
    if device.type == "cuda" and tensor.is_cpu and tensor.nbytes > 2**16:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@contextlib.contextmanager
def rounded(precision: str) -> Iterator[None]:
    """Inside, factors of float32 products are rounded to TF32 on CUDA: all under ``tf32``, those of
    GRUs, which autocast leaves out, under ``bfloat16``."""
    products, recurrent = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, recurrent.allow_tf32
    try:
        products.allow_tf32, recurrent.allow_tf32 = precision == "tf32", precision != "float32"
        yield
    finally:
        products.allow_tf32, recurrent.allow_tf32 = before


def resolve_precision(name: str, device: torch.device) -> str:
    """``auto`` becomes ``bfloat16`` where the device multiplies it (AMX or AVX512-BF16 on a CPU,
    compute capability 8.0 on CUDA), else ``float32``; the other names stay."""
    if name != "auto":
        return name
    if device.type == "cuda":
        is_native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        is_native = not {"amx_bf16", "avx512_bf16"}.isdisjoint(k for k, v in torch.cpu.get_capabilities().items() if v)
    return "bfloat16" if is_native else "float32"


@contextlib.contextmanager
def inference(device: torch.device, precision: str) -> Iterator[None]:
    """No gradients, and autocast for bfloat16. Enter it once for an extraction: autocast keeps its
    bfloat16 copies of the weights until the end."""
    with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        yield


def keep_freed() -> None:
    """From now on freed memory stays with this process: glibc returns every large block at once,
    and to clear the pages of the next one takes half of the time of a light network."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda option, value: None)
    mallopt(-4, 0)  # M_MMAP_MAX
    mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


Tensors = dict[str, Tensor]
Network = TypeVar("Network", bound=nn.Module)
_WRAPPERS = ("state_dict", "model_state_dict", "model")
# Of DataParallel before every name; of torch.compile and FSDP wherever a part was wrapped.
_WRAPPED = re.compile(r"^module\.|\b(_orig_mod|_fsdp_wrapped_module)\.")


def seeded(make: Callable[[], Network], seed: int, *names: str) -> Network:
    """Build a module drawn by ``seed`` and ``names``; the global generator stays."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "weights", *names))
        return make()


def read_weights(path: Path) -> Tensors:
    """Tensors by name from .safetensors, or from .pth and .pt, of which nothing is run; without the
    wrappers of trainings. Raises InputError for more than tensors or no state dict, IntegrityError
    for a damaged file."""
    with damaged(path, "damaged weights file"):
        content: object = load_file(path) if path.suffix == ".safetensors" else _pickled(path)
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not content or not all(isinstance(value, Tensor) for value in content.values()):
        raise InputError(f"{path}: not a state dict, which is names with tensors")
    return {_WRAPPED.sub("", name): tensor for name, tensor in content.items()}


def load_weights(model: nn.Module, state: Tensors, path: Path) -> None:
    """Copy ``state`` into ``model``; all keys must agree, except for counters of batch
    normalisation, which files of old versions lack. Raises InputError with the keys that differ."""
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        difference = str(error).splitlines()[1].strip()
        raise InputError(f"{path} does not fit {type(model).__name__}: {difference}") from error


def _pickled(path: Path) -> object:
    if zipfile.is_zipfile(path):  # packed members may have any size
        with zipfile.ZipFile(path) as file:
            memory.require(str(path), sum(member.file_size for member in file.infolist()))
    try:
        return torch.load(path, map_location="cpu", weights_only=True)  # noqa: TID251 (the one place)
    except UnpicklingError as error:
        raise InputError(f"{path}: holds more than tensors, refused; save it as safetensors") from error
