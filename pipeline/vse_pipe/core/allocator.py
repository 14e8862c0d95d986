"""What glibc's allocator does with memory that is freed."""

import ctypes

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
