"""The loops that set-up compiles."""

import importlib

from numba.core.dispatcher import Dispatcher

from tests.rules.sources import PACKAGE, modules
from vse_pipe.tools import kernels


def _loops() -> dict[str, Dispatcher]:
    """Every compiled function of the package by its place."""
    paths = [path for path in modules() if "@njit" in path.read_text(encoding="utf-8")]
    names = [".".join(("vse_pipe", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in paths]
    return {
        f"{name}.{key}": value
        for name in names
        for key, value in vars(importlib.import_module(name)).items()
        if isinstance(value, Dispatcher) and value.py_func.__module__ == name
    }


def test_every_loop_is_compiled():
    """But for those inside another one, which are compiled with it. What other tests called is forgotten before."""
    found = _loops()
    assert len(found) > 10
    for loop in found.values():
        loop._reset_overloads()
    kernels.compile_all()
    inside = {name for loop in found.values() for name in loop.py_func.__code__.co_names}
    assert [place for place, one in found.items() if not one.signatures and one.py_func.__name__ not in inside] == []
