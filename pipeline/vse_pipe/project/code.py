"""The code that an output depends on, as files and as one digest, and dvc.lock, which records it.

Code is read from the source of the package that runs, in a clone or installed. dvc.lock and DVC's cache are read
without DVC.
"""

import configparser
import hashlib
import importlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Required

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from vse_pipe.core.errors import ParamsError
from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.params.document import lookup, read_document
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import Family, options_class
from vse_pipe.project.stages import Declaration, declarations

if TYPE_CHECKING:
    from grimp import ImportGraph


PACKAGE = Path(__file__).parents[1]
# These modules decide messages, paths, checks of options or the device, and no content of an artefact; an edit in them
# must not retrain every model. Values of parameters are tracked by ``params:``.
_WITHOUT_EFFECT = ("vse_pipe.core.console", "vse_pipe.core.errors", "vse_pipe.core.locks")
# The options of a family's members stand on one page. Artefacts are compared by values and not by the page's text, so
# that a new option of a member does not change the code of the others.
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
    """``modules`` and all their imports, without modules of no effect and without pages of options. Imports of the
    pages are included."""
    start = set(modules)
    return {module for module in start.union(*map(_upstream, start)) if not module.endswith(_OPTIONS)}


def needed(declaration: Declaration, members: dict[Family, str]) -> set[str]:
    """Every module that decides the output of an entry with these members. A family without a member in it counts as a
    whole."""
    named = [(family, members.get(family)) for family in declaration.families]
    modules = [family.module(member) for family, name in named for member in ([name] if name else family.names())]
    return closure([declaration.module, *modules])


def option_pages(declaration: Declaration) -> list[str]:
    """The modules with the options of the families that the stage finds by name."""
    return [family.page for family in declaration.families if file(family.page).is_file()]


def defaults(declaration: Declaration, members: dict[Family, str]) -> set[str]:
    """Names for the defaults of the options in a listing, ``<package>.options:<member>``, for the members of
    ``needed``."""
    return {
        f"{family.page}:{family.side}{member}"
        for family in declaration.families
        if file(family.page).is_file()
        for member in ([members[family]] if members.get(family) else family.names())
    }


def digest(modules: Iterable[str]) -> str:
    """A digest of the content of all these modules."""
    return hashlib.sha256(listing(modules).encode()).hexdigest()


def listing(modules: Iterable[str], content: Callable[[str], str | None] | None = None) -> str:
    """A line for each module: its name and the digest of its content, by ``content`` if not None."""
    return "\n".join(f"{module} {(content or _content)(module)}" for module in sorted(modules))


def listings(params: Params) -> dict[str, str]:
    """{address in DVC: listing} of every stage for these parameters. Seeds of a run share its stage and its members."""
    content = cache(_content)  # for this call only: files may change
    members = {
        declared.stage(name): (declared, declared.members(params, name))
        for declared in declarations().values()
        for name in declared.entries(params)
    }
    return {
        stage: listing((modules := needed(*entry)) | _data_files(modules) | defaults(*entry), content)
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
            folder = next(one for one in path.parents if (one / "__init__.py").is_file())
            packages[path.relative_to(PACKAGE.parent).as_posix()] = ".".join(folder.relative_to(PACKAGE.parent).parts)
    return packages


def changed(listed: str) -> list[str]:
    """Modules of a listing that have changed or are missing."""
    recorded = (line.rpartition(" ") for line in listed.splitlines())
    return [module for module, _, was in recorded if _content(module) != was]


def file(module: str) -> Path:
    """The source of a module, or the file that a listing names by its path."""
    if "/" in module:
        return PACKAGE.parent / module
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _content(module: str) -> str | None:
    """The digest of a module, of a file or of a member's default options; None where it does not exist."""
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


DVC_LOCK = Path("dvc.lock")
# Files that DVC leaves out of folders: by .dvcignore, and its own.
_IGNORED_SUFFIXES = (".pyc", ".lock", ".timing.json", ".partial", ".tmp")
_IGNORED_NAMES = ("__pycache__", ".gitignore", ".dvcignore", ".DS_Store")


@dataclass(frozen=True)
class Recorded:
    """An output of a stage at ``path``. digest: md5, for a folder ending in ``.dir``."""

    stage: str
    path: str
    digest: str


class _File(TypedDict, total=False):
    path: Required[str]
    md5: str
    size: int


class _Stage(TypedDict, total=False):
    params: dict[str, dict[str, Any]]
    deps: list[_File]
    outs: list[_File]


class Lock:
    """dvc.lock in the working directory; a missing file is empty. Raises ParamsError for any other file."""

    def __init__(self, params: dict) -> None:
        """params: the unchecked content of params.yaml."""
        content = read_document(DVC_LOCK) if DVC_LOCK.is_file() else {}
        try:
            self.stages: dict[str, _Stage] = TypeAdapter(dict[str, _Stage]).validate_python(content.get("stages", {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, ("stages", *first["loc"])))
            raise ParamsError(
                [f"{DVC_LOCK} {where}: {first['msg']}; `git checkout dvc.lock` brings back the one that was committed"]
            ) from error
        self._params = params

    @cached_property
    def outs(self) -> dict[str, Recorded]:
        return {
            out["path"]: Recorded(name, out["path"], out["md5"])
            for name, stage in self.stages.items()
            for out in stage.get("outs", [])
            if "md5" in out
        }

    def files(self, out: Recorded) -> dict[str, str] | None:
        """{path in the folder: md5}, or {"": md5} of a file; None where the cache has no listing."""
        if not out.digest.endswith(".dir"):
            return {"": out.digest}
        listing = cache_object(out.digest)
        if not listing.is_file():
            return None
        try:
            return {one["relpath"]: one["md5"] for one in json.loads(listing.read_text(encoding="utf-8"))}
        except (ValueError, KeyError, TypeError):
            return None

    def damaged(self, path: Path) -> str:
        """The remedy for a damaged file of an output whose object in DVC's cache is damaged too; empty where the object
        is whole or missing."""
        for out in self.outs.values():
            if path == Path(out.path) or path.is_relative_to(out.path):
                digest = (self.files(out) or {}).get(path.relative_to(out.path).as_posix().removeprefix("."))
                cache_file = cache_object(digest) if digest else None
                if cache_file and cache_file.is_file() and md5(cache_file) != digest:
                    return f"remove it and the cache object {cache_file}, which is damaged too, and run `dvc repro {out.stage}`"
        return ""

    def changed(self, stage: str) -> list[str]:
        """The changes since a stage was recorded: in parameters, code, and recorded outputs of other stages.

        Raw data is compared by size only. A dependency that would have to be read completely is taken as unchanged.
        """
        node = self.stages[stage]
        changes = []
        for recorded in node.get("params", {}).values():
            for address, value in recorded.items():
                now = lookup(self._params, address)
                if now is None or now[0] != value:
                    changes.append(f"params.yaml {address}")
        for dep in node.get("deps", []):
            if paths.CODE in Path(dep["path"]).parents:
                changes += changed(self._listing(dep))
            elif not self._as_recorded(dep):
                changes.append(dep["path"])
        return changes

    def text(self, stage: str, path: str) -> str | None:
        """The content of a list that the stage depended on; None where no copy exists."""
        recorded = [dep for dep in self.stages[stage].get("deps", []) if dep["path"] == path]
        return (self._listing(recorded[0]) or None) if recorded else None

    def _listing(self, dep: _File) -> str:
        """A list of modules or files from the cache or its path; empty where neither has it."""
        digest = dep.get("md5", "")
        copies = [path for path in (cache_object(digest), Path(dep["path"])) if path.is_file() and md5(path) == digest]
        return copies[0].read_text(encoding="utf-8") if copies else ""

    def _as_recorded(self, dep: _File) -> bool:
        path, digest = dep["path"], dep.get("md5", "")
        if path in self.outs:
            return self.outs[path].digest == digest
        owner = next((out for name, out in self.outs.items() if path.startswith(f"{name}/")), None)
        if owner is not None:
            files = self.files(owner)
            return files is None or files.get(path[len(owner.path) + 1 :]) == digest
        where = Path(path)
        if not path.startswith("pipeline/"):
            return not where.is_file() or where.stat().st_size == dep.get("size")
        return not where.exists() or md5(where) == digest


def md5(path: Path) -> str:
    """DVC's md5 of a file, or of a folder (then ending in ``.dir``)."""
    if path.is_dir():
        listing = [{"md5": digest, "relpath": name} for name, digest in sorted(files_below(path).items())]
        return hashlib.md5(json.dumps(listing, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def files_below(folder: Path) -> dict[str, str]:
    """{relative path: md5} of every file that DVC would include in the folder's output."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part in _IGNORED_NAMES or part.endswith(_IGNORED_SUFFIXES) for part in parts):
            continue
        if path.is_file():
            digests["/".join(parts)] = md5(path)
    return digests


def cache_object(digest: str) -> Path:
    """The path of a digest's object in DVC's cache; it may not exist."""
    return cache_folder() / "files" / "md5" / digest[:2] / digest[2:]


def cache_folder() -> Path:
    """``cache.dir`` of .dvc/config.local or .dvc/config, else .dvc/cache."""
    for name in ("config.local", "config"):
        path = Path(".dvc") / name
        parser = configparser.ConfigParser(interpolation=None)
        if path.is_file():
            parser.read_string(path.read_text(encoding="utf-8"))
            for section in parser.sections():
                if section.strip("'\"") == "cache" and parser.has_option(section, "dir"):
                    return Path(".dvc") / parser.get(section, "dir")
    return Path(".dvc") / "cache"
