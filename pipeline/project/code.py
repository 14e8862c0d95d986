"""Which code an output depends on: what its stage and the members it names import, as files and as one digest.

Read from the source of the package that runs, be it a clone or installed.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import grimp

import pipeline
from pipeline.core.files import sha256
from pipeline.project.nodes import Declaration
from pipeline.project.registry import Family

PACKAGE = Path(pipeline.__file__).parent
# These decide messages, where files lie, how options are checked or on which device work runs, never what an artefact
# holds; an edit there must not retrain every model. Values of parameters are tracked by ``params:``.
_WITHOUT_EFFECT = (
    "pipeline.core.console",
    "pipeline.core.device",
    "pipeline.core.errors",
    "pipeline.core.locks",
    "pipeline.core.unknown",
)


@cache
def _graph() -> grimp.ImportGraph:
    """Imports inside functions are edges too, those for type checkers alone are not."""
    graph = grimp.build_graph("pipeline", cache_dir=None, exclude_type_checking_imports=True)
    for module in {*_WITHOUT_EFFECT, "pipeline.project", *graph.find_descendants("pipeline.project")}:
        graph.remove_module(module)
    return graph


def closure(modules: Iterable[str]) -> set[str]:
    """Modules that decide what ``modules`` do: these and all they import, those without effect left out."""
    graph, start = _graph(), set(modules)
    return start.union(*(graph.find_upstream_modules(module) for module in start))


def needed(declaration: Declaration, members: dict[Family, str]) -> set[str]:
    """Every module that decides what the stage writes for an entry with these members, and any of the families of which
    the entry names none."""
    named = [(family, members.get(family)) for family in declaration.finds]
    own = [
        module
        for family, name in named
        for member in ([name] if name else family.names())
        for module in family.modules(member)
    ]
    return closure([declaration.module, *own])


def digest(modules: Iterable[str]) -> str:
    """One for the content of all these modules."""
    listed = [f"{module} {sha256(file(module))}" for module in sorted(modules)]
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()


def file(module: str) -> Path:
    """Where the module's source is."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
