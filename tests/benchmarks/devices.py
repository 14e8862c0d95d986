"""The device that a benchmark measures, and a clock that waits for it."""

import argparse
from collections.abc import Callable

import torch

from vse_pipe.core import devices
from vse_pipe.core.errors import UsageError

CPU = torch.device("cpu")


def add(parser: argparse.ArgumentParser) -> None:
    """``--device``: the parser ends with one line where the machine does not have it."""
    parser.add_argument("--device", type=known, default=CPU, help="cpu, cuda, cuda:N, or auto")


def known(name: str) -> torch.device:
    """As of ``--device`` of a command; raises what argparse shows for one that is not there."""
    try:
        return devices.resolve_device(name)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Of ``work`` to its end, on a GPU as well, which works on while Python goes ahead."""
    wait()
    started = clock()
    work()
    wait()
    return clock() - started


def wait() -> None:
    """Until GPUs have done what was asked of them."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
