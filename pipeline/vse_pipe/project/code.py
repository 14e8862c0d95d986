"""The code that an output depends on, as files and as one digest.

Code is read from the source of the package that runs, in a clone or installed.
"""

import hashlib
import importlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from vse_pipe.core.files import sha256
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import Family, options_class
from vse_pipe.project.stages import Declaration, declarations

if TYPE_CHECKING:
    from grimp import ImportGraph


PACKAGE = Path(__file__).parents[1]
# These modules decide messages, paths, checks of options or the device, and no content of an
# artefact; an edit in them must not retrain every model. Values of parameters are tracked by
# ``params:``.
_WITHOUT_EFFECT = ("vse_pipe.core.console", "vse_pipe.core.errors", "vse_pipe.core.locks")
# The options of a family's members stand on one page. Artefacts are compared by values and not by
# the page's text, so that a new option of a member does not change the code of the others.
_OPTIONS = ".options"


@cache
def _graph() -> "ImportGraph":
    """Imports inside functions are edges; imports for type checkers only are not."""
    import grimp  # not needed for dvc.lock

    graph = grimp.build_graph("vse_pipe", cache_dir=None, exclude_type_checking_imports=True)
    for module in {*_WITHOUT_EFFECT, "vse_pipe.project", *graph.find_descendants("vse_pipe.project")}:
        graph.remove_module(module)
    return graph


@cache
def _upstream(module: str) -> frozenset[str]:
    return frozenset(_graph().find_upstream_modules(module))


def closure(modules: Iterable[str]) -> set[str]:
    """``modules`` and all their imports, without modules of no effect and without pages of options.
    Imports of the pages are included."""
    start = set(modules)
    return {module for module in start.union(*map(_upstream, start)) if not module.endswith(_OPTIONS)}


def needed(declaration: Declaration, members: dict[Family, str]) -> set[str]:
    """Every module that decides the output of an entry with these members."""
    modules = [family.module(name) for family, name in _loaded(declaration, members)]
    return closure([declaration.module, *modules])


def defaults(declaration: Declaration, members: dict[Family, str]) -> set[str]:
    """Names for the defaults of the options in a listing, ``<package>.options:<member>``."""
    return {f"{family.page}:{family.side}{name}" for family, name in _loaded(declaration, members)}


def _loaded(declaration: Declaration, members: dict[Family, str]) -> list[tuple[Family, str]]:
    """The members that an entry may load. A family without a member in it counts as a whole."""
    names = {family: [members[family]] if family in members else family.names() for family in declaration.families}
    return [(family, name) for family, chosen in names.items() for name in chosen]


def digest(modules: Iterable[str]) -> str:
    """A digest of the content of all these modules."""
    return hashlib.sha256(listing(modules).encode()).hexdigest()


def listing(modules: Iterable[str]) -> str:
    """A line for each module: its name and digest."""
    return "\n".join(f"{module} {_content(module)}" for module in sorted(modules))


def listings(params: Params) -> dict[str, str]:
    """{address in DVC: listing} of every stage. Seeds of a run share stage and members."""
    members = {
        declared.stage(name): (declared, declared.members(params, name))
        for declared in declarations().values()
        for name in declared.entries(params)
    }
    return {
        stage: listing((modules := needed(*entry)) | _data_files(modules) | defaults(*entry))
        for stage, entry in members.items()
    }


def _data_files(modules: set[str]) -> set[str]:
    """Paths of the files beside these modules that are no modules, such as templates of pages."""
    packages = {module.rpartition(".")[0] for module in modules} | modules
    return {name for name, package in _data().items() if package in packages}


@cache
def _data() -> dict[str, str]:
    """{path: package} of these files."""
    packages = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts:
            folder = next(above for above in path.parents if (above / "__init__.py").is_file())
            packages[path.relative_to(PACKAGE.parent).as_posix()] = ".".join(folder.relative_to(PACKAGE.parent).parts)
    return packages


def file(module: str) -> Path:
    """The source of a module, or the file that a listing names by its path."""
    if "/" in module:
        return PACKAGE.parent / module
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _content(module: str) -> str | None:
    """The digest of a module, a file or a member's defaults; None where there is none."""
    if ":" in module:
        return _defaults_digest(*module.split(":"))
    path = file(module)
    return sha256(path) if path.is_file() else None


def _defaults_digest(page: str, member: str) -> str:
    """The digest of a member's options and defaults; required ones have none."""
    options = getattr(importlib.import_module(page), options_class(member))
    values = {
        name: [] if field.is_required() else [to_jsonable_python(field.get_default(call_default_factory=True))]
        for name, field in options.model_fields.items()
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
