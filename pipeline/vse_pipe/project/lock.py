"""dvc.lock and DVC's cache, read without DVC: which bytes each stage read and wrote when it last ran."""

import configparser
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Required

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from vse_pipe.core.errors import ParamsError
from vse_pipe.project import code, paths
from vse_pipe.project.params.document import lookup, read_document

DVC_LOCK = Path("dvc.lock")
# What DVC leaves out of folders here: .dvcignore, and the files it puts there itself.
_IGNORED_SUFFIXES = (".pyc", ".lock", ".timing.json", ".partial", ".tmp")
_IGNORED_NAMES = ("__pycache__", ".gitignore", ".dvcignore", ".DS_Store")


@dataclass(frozen=True)
class Recorded:
    """What a stage wrote at ``path``. digest: md5, of a folder ending in ``.dir``."""

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
    """The file below the working directory, empty where there is none. Raises ParamsError when it is no such file."""

    def __init__(self, params: dict) -> None:
        """params: params.yaml as it stands in the file."""
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
        """By path."""
        return {
            out["path"]: Recorded(name, out["path"], out["md5"])
            for name, stage in self.stages.items()
            for out in stage.get("outs", [])
            if "md5" in out
        }

    def files(self, out: Recorded) -> dict[str, str] | None:
        """md5 by path relative to the folder, or of the file itself under ``""``; None where the cache has no listing."""
        if not out.digest.endswith(".dir"):
            return {"": out.digest}
        listing = cached(out.digest)
        if not listing.is_file():
            return None
        try:
            return {one["relpath"]: one["md5"] for one in json.loads(listing.read_text(encoding="utf-8"))}
        except (ValueError, KeyError, TypeError):
            return None

    def damaged(self, path: Path) -> str:
        """What to do about a damaged file of an output whose object in DVC's cache is damaged too, so that DVC would put it
        back; empty where the object is whole, or not there."""
        for out in self.outs.values():
            if path == Path(out.path) or path.is_relative_to(out.path):
                digest = (self.files(out) or {}).get(path.relative_to(out.path).as_posix().removeprefix("."))
                kept = cached(digest) if digest else None
                if kept and kept.is_file() and md5(kept) != digest:
                    return (
                        f"remove it and the cache object {kept}, which is damaged too, and run `dvc repro {out.stage}`"
                    )
        return ""

    def changed(self, stage: str) -> list[str]:
        """What of a recorded stage is different now: parameters, code, and outputs of other stages as they are recorded.

        Raw data is compared by size alone, and what cannot be compared without reading all of it is taken as it was.
        """
        node = self.stages[stage]
        found = []
        for recorded in node.get("params", {}).values():
            for address, value in recorded.items():
                now = lookup(self._params, address)
                if now is None or now[0] != value:
                    found.append(f"params.yaml {address}")
        for dep in node.get("deps", []):
            if paths.CODE in Path(dep["path"]).parents:
                found += code.changed(self._listing(dep))
            elif not self._as_recorded(dep):
                found.append(dep["path"])
        return found

    def text(self, stage: str, path: str) -> str | None:
        """The content of a list that the stage depended on, from where it still is; None where it is nowhere."""
        recorded = [dep for dep in self.stages[stage].get("deps", []) if dep["path"] == path]
        return (self._listing(recorded[0]) or None) if recorded else None

    def _listing(self, dep: _File) -> str:
        """A list of modules or of files, from where it still is; empty where it is nowhere."""
        digest = dep.get("md5", "")
        kept = [path for path in (cached(digest), Path(dep["path"])) if path.is_file() and md5(path) == digest]
        return kept[0].read_text(encoding="utf-8") if kept else ""

    def _as_recorded(self, dep: _File) -> bool:
        path, digest = dep["path"], dep.get("md5", "")
        if path in self.outs:
            return self.outs[path].digest == digest
        owner = next((out for name, out in self.outs.items() if path.startswith(f"{name}/")), None)
        if owner is not None:
            known = self.files(owner)
            return known is None or known.get(path[len(owner.path) + 1 :]) == digest
        where = Path(path)
        if not path.startswith("pipeline/"):
            return not where.is_file() or where.stat().st_size == dep.get("size")
        return not where.exists() or md5(where) == digest


def md5(path: Path) -> str:
    """As DVC computes it, of a file or of a folder (then ending in ``.dir``)."""
    if path.is_dir():
        listing = [{"md5": digest, "relpath": name} for name, digest in sorted(files_below(path).items())]
        return hashlib.md5(json.dumps(listing, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def files_below(folder: Path) -> dict[str, str]:
    """md5 by relative path of every file that DVC would take into the folder's output."""
    found = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part in _IGNORED_NAMES or part.endswith(_IGNORED_SUFFIXES) for part in parts):
            continue
        if path.is_file():
            found["/".join(parts)] = md5(path)
    return found


def cached(digest: str) -> Path:
    """Where DVC's cache has the object of that digest, be it there or not."""
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
