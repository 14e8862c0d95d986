"""Set-up leaves nothing to compile for the stages."""

import importlib

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


def test_every_loop_is_compiled():
    kernels.compile_all()
    found = _compiled()
    assert len(found) > 10
    assert [name for name, function in found.items() if not function.signatures] == []
