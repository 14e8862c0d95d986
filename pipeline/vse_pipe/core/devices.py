"""Which device a command computes on."""

import contextlib
import ctypes
import re
from collections.abc import Iterator

import torch

from vse_pipe.core.errors import UsageError


def resolve_device(name: str) -> torch.device:
    """``auto`` (a GPU when there is one), ``cpu``, ``cuda`` or ``cuda:N``. Raises UsageError for anything else,
    and for a GPU that this machine does not have."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if not re.fullmatch(r"cuda(:\d+)?", name):
        raise UsageError(f"unknown device '{name}'; known: auto, cpu, cuda, cuda:N")
    devices = torch.cuda.device_count()
    if int(name.partition(":")[2] or 0) >= devices:
        raise UsageError(f"device '{name}' is not there: this machine offers {devices} CUDA devices; use auto or cpu")
    return torch.device(name)


def native_bfloat16(device: torch.device) -> bool:
    """AMX or AVX512-BF16 on a CPU; compute capability 8.0 or newer on CUDA."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def resolve_precision(name: str, device: torch.device) -> str:
    """``auto`` becomes ``bfloat16`` or ``float32``; the other names stay."""
    if name != "auto":
        return name
    return "bfloat16" if native_bfloat16(device) else "float32"


@contextlib.contextmanager
def inference(device: torch.device, precision: str) -> Iterator[None]:
    """No gradients, autocast when asked for, and on CUDA the same kernels every time.

    Enter it once around a whole extraction: autocast keeps its bfloat16 copies of the weights until it is left.
    float32 means float32: cuDNN's TF32 is switched off.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        if device.type == "cuda":
            stack.enter_context(
                torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
            )
        if precision == "bfloat16":
            stack.enter_context(torch.autocast(device.type, torch.bfloat16))
        yield


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # malloc.h
_NEVER = 2**31 - 1


def keep_freed() -> None:
    """From now on freed memory stays with this process, for what is computed next.

    glibc gives every large block back at once and takes another, whose pages the system clears one by one: half of the time
    of a light network, whose maps of a batch are large and soon computed. Other C libraries have no such call and stay
    as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _NEVER)
