"""Which code an output depends on: what its stage and the members it names import, as files and as one digest.

Read from the source of the package that runs, be it a clone or installed.
"""

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

import vse_pipe
from vse_pipe.core.files import sha256
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import Family, options_class
from vse_pipe.project.stages import Declaration, declarations

if TYPE_CHECKING:
    from grimp import ImportGraph

PACKAGE = Path(vse_pipe.__file__).parent
# These decide messages, where files lie, how options are checked or on which device work runs, never what an artefact
# holds; an edit there must not retrain every model. Values of parameters are tracked by ``params:``.
_WITHOUT_EFFECT = (
    "vse_pipe.core.console",
    "vse_pipe.core.errors",
    "vse_pipe.core.locks",
)
# The options of a family's members stand on one page. Their values count where an artefact is compared, and its text does
# not, so that a new option of one member leaves the code of the others as it was.
_OPTIONS = ".options"


@cache
def _graph() -> "ImportGraph":
    """Imports inside functions are edges too, those for type checkers alone are not."""
    import grimp  # which reading dvc.lock does without

    graph = grimp.build_graph("vse_pipe", cache_dir=None, exclude_type_checking_imports=True)
    for module in {*_WITHOUT_EFFECT, "vse_pipe.project", *graph.find_descendants("vse_pipe.project")}:
        graph.remove_module(module)
    return graph


@cache
def _upstream(module: str) -> frozenset[str]:
    return frozenset(_graph().find_upstream_modules(module))


def closure(modules: Iterable[str]) -> set[str]:
    """Modules that decide what ``modules`` do: these and all they import. Those without effect are left out, and pages of
    options, but not what these import."""
    start = set(modules)
    return {module for module in start.union(*map(_upstream, start)) if not module.endswith(_OPTIONS)}


def needed(declaration: Declaration, members: dict[Family, str]) -> set[str]:
    """Every module that decides what the stage writes for an entry with these members, and any of the families of which
    the entry names none."""
    named = [(family, members.get(family)) for family in declaration.families]
    modules = [family.module(member) for family, name in named for member in ([name] if name else family.names())]
    return closure([declaration.module, *modules])


def option_pages(declaration: Declaration) -> list[str]:
    """The modules with the options of the families that the stage finds by name."""
    return [family.page for family in declaration.families if file(family.page).is_file()]


def defaults(declaration: Declaration, members: dict[Family, str]) -> set[str]:
    """What a listing says of the options' defaults, for the members of ``needed``: ``<package>.options:<member>``."""
    return {
        f"{family.page}:{member}"
        for family in declaration.families
        if file(family.page).is_file()
        for member in ([members[family]] if members.get(family) else family.names())
    }


def digest(modules: Iterable[str]) -> str:
    """One for the content of all these modules."""
    return hashlib.sha256(listing(modules).encode()).hexdigest()


def listing(modules: Iterable[str], content: Callable[[str], str | None] | None = None) -> str:
    """A line for each module: its name and the digest of its content, as of ``content`` where that is given."""
    return "\n".join(f"{module} {(content or _content)(module)}" for module in sorted(modules))


def listings(params: Params) -> dict[str, str]:
    """Of every stage that dvc.yaml has for these parameters, as DVC addresses it. What repeats a run with seeds shares its
    stage and its members."""
    content = cache(_content)  # no longer than this call: files may change
    members = {
        declared.stage(name): (declared, declared.members(params, name))
        for declared in declarations().values()
        for name in declared.entries(params)
    }
    return {
        stage: listing((modules := needed(*entry)) | _beside(modules) | defaults(*entry), content)
        for stage, entry in members.items()
    }


def _beside(modules: set[str]) -> set[str]:
    """Files of the package that are no modules, such as templates of pages, below the folders of these, as paths from it."""
    packages = {module.rpartition(".")[0] for module in modules} | modules
    return {name for name, package in _data().items() if package in packages}


@cache
def _data() -> dict[str, str]:
    """The package each lies in, by path."""
    found = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts:
            folder = next(one for one in path.parents if (one / "__init__.py").is_file())
            found[path.relative_to(PACKAGE.parent).as_posix()] = ".".join(folder.relative_to(PACKAGE.parent).parts)
    return found


def changed(listed: str) -> list[str]:
    """Modules of a listing that are no longer what they were, or there."""
    recorded = (line.rpartition(" ") for line in listed.splitlines())
    return [module for module, _, was in recorded if _content(module) != was]


def file(module: str) -> Path:
    """Where the module's source is, or what a listing names by its path."""
    if "/" in module:
        return PACKAGE.parent / module
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _content(module: str) -> str | None:
    """The digest of a module, of a file or of a member's default options; None where there is no such thing."""
    if ":" in module:
        return _defaults_digest(*module.split(":"))
    path = file(module)
    return sha256(path) if path.is_file() else None


def _defaults_digest(page: str, member: str) -> str | None:
    """The digest of the names and default values of a member's options; required options have none."""
    options = file(page).is_file() and getattr(importlib.import_module(page), options_class(member), None)
    if not options:
        return None
    values = {
        name: [] if field.is_required() else [to_jsonable_python(field.get_default(call_default_factory=True))]
        for name, field in options.model_fields.items()
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
