"""Freed memory stays with the process once it was asked for."""

import platform
import subprocess
import sys

import pytest

_FAULTS = """
import resource
import torch
from vse_pipe.core import allocator
{call}
for turn in range(24):
    if turn == 12:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_the_next_block_takes_the_pages_of_the_last() -> None:
    """64 MiB are written twelve times, once blocks have found their places: pages that the system clears, 4 KiB each or, where they are
    huge, 2 MiB."""
    kept, given_back = (
        int(subprocess.run([sys.executable, "-c", _FAULTS.format(call=call)], capture_output=True, text=True, check=True).stdout)
        for call in ("allocator.keep_freed()", "")
    )  # fmt: skip
    assert kept < 16 < given_back
