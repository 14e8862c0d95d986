"""Compiled loops over rows, on as many threads as torch uses."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch


def over_rows(work: Callable[[int, int], None], rows: int) -> None:
    """``work(start, stop)`` for consecutive parts of the rows, at the same time; it must release the interpreter's lock
    (numba's ``nogil``) and treat rows one by one, so that the parts change nothing."""
    threads = min(torch.get_num_threads(), rows)
    if threads < 2:
        work(0, rows)
        return
    edges = [rows * part // threads for part in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))
