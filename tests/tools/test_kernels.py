"""Set-up leaves nothing to compile for the stages."""

import importlib
import subprocess
import sys

from numba.core.dispatcher import Dispatcher

from tests.rules.sources import PACKAGE, modules
from vse_pipe.tools import kernels


def _compiled() -> dict[str, Dispatcher]:
    """Every compiled function of the package by its place."""
    paths = [path for path in modules() if "@njit" in path.read_text(encoding="utf-8")]
    names = [".".join(("vse_pipe", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in paths]
    return {
        f"{name}.{key}": value
        for name in names
        for key, value in vars(importlib.import_module(name)).items()
        if isinstance(value, Dispatcher) and value.py_func.__module__ == name
    }


def unreached() -> list[str]:
    """Loops that set-up does not call, but for those inside another one, which are compiled with it."""
    kernels.compile_all()
    found = _compiled()
    assert len(found) > 10
    inside = {name for function in found.values() for name in function.py_func.__code__.co_names}
    return [place for place, one in found.items() if not one.signatures and one.py_func.__name__ not in inside]


def test_every_loop_is_compiled():
    """In a process of its own, for other tests call loops too."""
    code = "from tests.tools.test_kernels import unreached; print(*unreached())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
