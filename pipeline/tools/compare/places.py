"""What RUN on the command line means: a run of the project, with its criteria, or one folder of an
evaluation."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pipeline.artifacts import evaluation
from pipeline.core.errors import InputError, UsageError
from pipeline.core.unknown import missing, unknown
from pipeline.project import paths
from pipeline.project.params.typed import Params
from pipeline.tools.compare.files import Files, Revision


@dataclass(frozen=True)
class Compared:
    """An evaluation that has been read. name: what to call it; metrics: metrics.json; ranks, occurrence: the
    tables."""

    name: str
    metrics: dict
    ranks: pa.Table
    occurrence: pa.Table


@dataclass(frozen=True)
class Place:
    """name: as in messages; folder: of one criterion when ``single``, else of the criteria of a run; files:
    where from."""

    name: str
    folder: Path
    single: bool
    files: Files

    def criteria(self) -> list[str]:
        """Names of the criteria, sorted. Raises InputError when there are none."""
        if self.single:
            with self.files.local(self.folder, (evaluation.METRICS,)) as local:
                return [str(evaluation.read_metrics(local).get("inference", self.folder.name))]
        found = self.files.below(self.folder)
        if not found:
            raise InputError(
                f"{self.files.shown(self.folder)}: no folder in it has a {evaluation.METRICS}; evaluate the run"
            )
        return found

    def check(self, criterion: str) -> str:
        """``criterion`` if it is there. Raises UsageError."""
        known = self.criteria()
        if criterion not in known:
            what = f"{self.name} has no evaluation under '{criterion}'"
            raise UsageError(missing(what, criterion, known, f"it has: {', '.join(known)}"))
        return criterion

    def read(self, criterion: str) -> Compared:
        """Raises InputError or IntegrityError for files that are missing, of an older version or damaged."""
        folder = self.folder if self.single else self.folder / criterion
        names = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)
        with self.files.local(folder, names) as local:
            ranks, occurrence = evaluation.read_ranks(local), evaluation.read_occurrence(local)
            if "image_id" not in ranks.column_names:
                raise InputError(f"{local / evaluation.RANKS}: column 'image_id' (int64) is missing; evaluate again")
            return Compared(self.name, evaluation.read_metrics(local), ranks, occurrence)


def find(name: str, start: Path, params: Params | None, files: Files) -> Place:
    """A name with a path separator is a folder, any other a run of the project if it has one of that name,
    else a folder."""
    folder = start / name
    if not is_path(name) and params is not None and (name in params.evaluated() or paths.evaluated(name, "").is_dir()):
        return _run(name, files)
    if (folder / evaluation.METRICS).is_file():
        return Place(name, folder, True, files)
    if is_path(name) or params is None:
        raise UsageError(
            f"{folder} has no {evaluation.METRICS}: RUN is a folder that `vse-pipe evaluate` wrote "
            "or, inside a project, a run"
        )
    known = sorted(params.evaluated())
    raise UsageError(unknown("run", name, known))


def at_revision(name: str, start: Path, params: Params | None, rev: str) -> Place:
    """The same of another revision: a run or folder need not exist in the work tree, but must lie in the
    project."""
    if params is None:
        raise UsageError("--base reads from the project's git history: run it inside a vse-pipe project")
    files = Revision.open(rev)
    if not is_path(name):
        return Place(f"{rev}:{name}", paths.evaluated(name, ""), False, files)
    folder, root = (start / name).resolve(), Path.cwd().resolve()
    if not folder.is_relative_to(root):
        raise UsageError(f"{folder} lies outside the project {root}, whose revisions --base reads")
    return Place(f"{rev}:{folder.relative_to(root)}", folder.relative_to(root), True, files)


def common(a: Place, b: Place, order: Sequence[str]) -> list[str]:
    """Criteria that both have: those of ``order`` first, the others sorted. Raises InputError when there is
    none."""
    of_a, of_b = a.criteria(), b.criteria()
    both = set(of_a) & set(of_b)
    if not both:
        raise InputError(f"no criterion in common: {a.name} has {', '.join(of_a)}; {b.name} has {', '.join(of_b)}")
    return [name for name in order if name in both] + sorted(both - set(order))


def _run(name: str, files: Files) -> Place:
    folder = paths.evaluated(name, "")
    if not folder.is_dir():
        raise InputError(f"{folder} does not exist; make it with `vse-pipe evaluate --run {name}` or `dvc repro`")
    return Place(name, folder, False, files)


def is_path(name: str) -> bool:
    """Does RUN name a folder, whatever runs there are?"""
    return os.sep in name or name in (os.curdir, os.pardir)
