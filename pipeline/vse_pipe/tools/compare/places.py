"""What RUN on the command line means: a run of the project, with its criteria, or one folder of an
evaluation."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import InputError, UsageError, missing, unknown
from vse_pipe.project import paths, repetitions
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import Compared, Method
from vse_pipe.tools.compare.files import Files, Revision


@dataclass(frozen=True)
class Place:
    """name: as in messages; folders: of one criterion when ``single``, else of the criteria of a run, one for each of its
    seeds; without seeds there is one, by the empty name. files: where from."""

    name: str
    folders: dict[str, Path]
    single: bool
    files: Files

    def criteria(self) -> list[str]:
        """Names of the criteria, sorted; those that every seed has. Raises InputError when there are none."""
        if self.single:
            (folder,) = self.folders.values()
            with self.files.local(folder, (evaluation.METRICS,)) as local:
                return [str(evaluation.read_metrics(local).get("inference", folder.name))]
        found = {folder: set(self.files.below(folder)) for folder in self.folders.values()}
        for folder, names in found.items():
            if not names:
                raise InputError(
                    f"{self.files.shown(folder)}: no folder in it has a {evaluation.METRICS}; evaluate the run"
                )
        every = set.intersection(*found.values())
        if not every:
            raise InputError(f"{self.name}: its seeds have no criterion in common; evaluate the run")
        return sorted(every)

    def check(self, criterion: str) -> str:
        """``criterion`` if it is there. Raises UsageError."""
        known = self.criteria()
        if criterion not in known:
            what = f"{self.name} has no evaluation under '{criterion}'"
            raise UsageError(missing(what, criterion, known, f"it has: {', '.join(known)}"))
        return criterion

    def read(self, criterion: str) -> Method:
        """Raises InputError or IntegrityError for files that are missing, of an older version or damaged."""
        names = (evaluation.METRICS, evaluation.RANKS, evaluation.OCCURRENCE)
        models = {}
        for seed, folder in self.folders.items():
            with self.files.local(folder if self.single else folder / criterion, names) as local:
                models[seed] = Compared.read(repetitions.name(self.name, int(seed)) if seed else self.name, local)
        return Method(self.name, models)


def find(name: str, start: Path, params: Params | None, files: Files) -> Place:
    """A name with a path separator is a folder, any other a run of the project if it has one of that name,
    else a folder. Raises IntegrityError for a run whose evaluations are of other models or data than there are now."""
    folder = start / name
    known = [] if params is None else sorted({*params.evaluated(), *params.groups})
    if params is not None and (name in known or (not is_path(name) and paths.evaluations(name).is_dir())):
        return _run(name, params, files)
    if (folder / evaluation.METRICS).is_file():
        return Place(name, {"": folder}, True, files)
    if is_path(name) or params is None:
        raise UsageError(
            f"{folder} has no {evaluation.METRICS}: RUN is a folder that `vse-pipe evaluate` wrote "
            "or, inside a project, a run"
        )
    raise UsageError(unknown("run", name, known))


def at_revision(name: str, start: Path, params: Params | None, rev: str) -> Place:
    """The same of another revision: a run or folder need not exist in the work tree, but must lie in the
    project."""
    if params is None:
        raise UsageError("--base reads from the project's git history: run it inside a vse-pipe project")
    files = Revision.open(rev)
    if not is_path(name) or name in params.evaluated():
        folder = paths.evaluations(name)
        seeds = [one for one in files.below(folder) if one.isdecimal()]
        folders = {seed: folder / seed for seed in sorted(seeds, key=int)} or {"": folder}
        return Place(f"{rev}:{name}", folders, False, files)
    folder, root = (start / name).resolve(), Path.cwd().resolve()
    if not folder.is_relative_to(root):
        raise UsageError(f"{folder} lies outside the project {root}, whose revisions --base reads")
    return Place(f"{rev}:{folder.relative_to(root)}", {"": folder.relative_to(root)}, True, files)


def common(a: Place, b: Place, order: Sequence[str]) -> list[str]:
    """Criteria that both have: those of ``order`` first, the others sorted. Raises InputError when there is
    none."""
    of_a, of_b = a.criteria(), b.criteria()
    both = set(of_a) & set(of_b)
    if not both:
        raise InputError(f"no criterion in common: {a.name} has {', '.join(of_a)}; {b.name} has {', '.join(of_b)}")
    return [name for name in order if name in both] + sorted(both - set(order))


def _run(name: str, params: Params, files: Files) -> Place:
    folders = {}
    for model in params.models(name):
        folder = paths.evaluations(model)
        if not folder.is_dir():
            raise InputError(f"{folder} does not exist; make it with `vse-pipe evaluate --run {model}` or `dvc repro`")
        evaluation.require_current(params, model)
        folders["" if model == name else str(repetitions.seed(model))] = folder
    return Place(name, folders, False, files)


def is_path(name: str) -> bool:
    """Does RUN name a folder, whatever runs there are?"""
    return os.sep in name or name in (os.curdir, os.pardir)


def is_evaluation(name: str) -> bool:
    """Is RUN such a folder that is there, for which no project is needed? ``max/1`` is a run."""
    return is_path(name) and (Path(name) / evaluation.METRICS).is_file()
