"""bfloat16 where the hardware computes it natively; elsewhere it is only slower and less exact."""

import contextlib
from collections.abc import Iterator

import torch


def native_bfloat16(device: torch.device) -> bool:
    """AMX or AVX512-BF16 on a CPU; compute capability 8.0 or newer on CUDA."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def resolve(name: str, device: torch.device) -> str:
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
