"""Which device a command computes on."""

import re

import torch

from vse_pipe.core.errors import UsageError


def resolve(name: str) -> torch.device:
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
