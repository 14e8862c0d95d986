"""Cores and memory, as this process may use them."""

import os
from pathlib import Path

from vse_pipe.tools.doctor.line import OK, WARN, Line

_ENOUGH_GIB = 4.0
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def look() -> list[Line]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = os.environ.get("OMP_NUM_THREADS")
    said = f"{cores} usable" + (f", OMP_NUM_THREADS is {threads}" if threads else "")
    lines = [Line(OK, "cores", said)]
    free = memory()
    if free is None:
        return [*lines, Line(OK, "memory", "cannot be told on this system")]
    if free < _ENOUGH_GIB:
        remedy = "lower evaluate.memory, train.batch_size and the backbone's batch_size, or end other programs"
        return [*lines, Line(WARN, "memory", f"{free:.1f} GiB free", remedy)]
    return [*lines, Line(OK, "memory", f"{free:.1f} GiB free")]


def memory() -> float | None:
    """GiB available: of the machine, or of the container where that is less."""
    path = Path("/proc/meminfo")
    if not path.is_file():
        return None
    rows = dict(line.split(":", 1) for line in path.read_text(encoding="utf-8").splitlines())
    free = int(rows["MemAvailable"].split()[0]) * 1024
    for limit in _LIMITS:
        text = limit.read_text(encoding="utf-8").strip() if limit.is_file() else "max"
        if text.isdigit():
            free = min(free, int(text))
    return free / 2**30
