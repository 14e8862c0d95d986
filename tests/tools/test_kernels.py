"""Set-up leaves nothing to compile for the stages."""

import importlib
from pathlib import Path

from numba.core.dispatcher import Dispatcher

from pipeline.tools import kernels
from tests.rules.sources import PACKAGE, modules


def _compiled() -> dict[str, Dispatcher]:
    """Every compiled function of the package by its place."""
    paths = [path for path in modules() if "@njit" in path.read_text(encoding="utf-8")]
    names = [".".join(("pipeline", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in paths]
    return {
        f"{name}.{key}": value
        for name in names
        for key, value in vars(importlib.import_module(name)).items()
        if isinstance(value, Dispatcher)
    }


def _kept(function: Dispatcher) -> bool:
    """Is there machine code of it on disk? A loop inside another one is loaded as part of that."""
    stem = function.py_func.__module__.rpartition(".")[2]
    return any(Path(function.stats.cache_path).glob(f"{stem}.{function.py_func.__name__}-*.nbc"))


def test_every_loop_is_compiled():
    kernels.compile_all()
    found = _compiled()
    assert len(found) > 10
    assert [name for name, function in found.items() if not _kept(function)] == []
