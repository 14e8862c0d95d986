"""Sides of a comparison: evaluations on the disk or in a git revision, read through DVC."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse_pipe.artifacts import evaluation, identity, model_files
from vse_pipe.artifacts.evaluation import METRICS
from vse_pipe.core import errors
from vse_pipe.core.errors import InputError, MissingResource, PipelineError, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.core.places import run_of_folder
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import FILES, Compared, Method


class Disk:
    """Folders of evaluations in the work tree, relative to the working directory."""

    def label(self, folder: Path) -> str:
        """Name of ``folder`` in messages."""
        return str(folder)

    def below(self, folder: Path) -> list[str]:
        """Names of the folders in ``folder`` that hold an evaluation, sorted."""
        return sorted(path.parent.name for path in folder.glob(f"*/{METRICS}"))

    @contextlib.contextmanager
    def local(self, folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
        """A folder on disk with the files ``names`` of ``folder``."""
        yield folder


@dataclass(frozen=True)
class Revision:
    """rev: a commit, tag or branch; system: DVC's file system from the root of the git repository;
    prefix: the path from that root to the working directory."""

    rev: str
    system: Any
    prefix: Path

    @classmethod
    def open(cls, rev: str) -> "Revision":
        """Raises UsageError for an unknown revision and without a DVC repository around."""
        from dvc.api import DVCFileSystem
        from dvc.exceptions import DvcException
        from dvc.repo import Repo

        try:
            with Repo(Repo.find_root()) as repo:
                root = Path(repo.scm.root_dir)
            # A revision has only the root of git; the root of DVC may lie below it.
            system = DVCFileSystem(str(root), rev=rev, subrepos=True)
            system.info("")
        except DvcException as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"--base {rev}: {reason}; give a commit, tag or branch") from error
        return cls(rev, system, Path.cwd().resolve().relative_to(root.resolve()))

    def label(self, folder: Path) -> str:
        return f"{self.rev}:{folder}"

    def below(self, folder: Path) -> list[str]:
        with self._explained(folder):
            return self._folders(folder)

    @contextlib.contextmanager
    def local(self, folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary) / folder
            copy.mkdir(parents=True)
            for name in names:
                with self._explained(folder / name):
                    self.system.get_file(str(self.prefix / folder / name), str(copy / name))
            try:
                yield copy
            except PipelineError as error:
                # Messages name the temporary copy; users know the file by its revision.
                raise type(error)(str(error).replace(f"{temporary}/", f"{self.rev}:")) from error

    def _folders(self, folder: Path) -> list[str]:
        entries = self.system.ls(str(self.prefix / folder), detail=True)
        return sorted(Path(item["name"]).name for item in entries if item["type"] == "directory")

    @contextlib.contextmanager
    def _explained(self, path: Path) -> Iterator[None]:
        from dvc.exceptions import DvcException
        from dvc_data.index import DataIndexDirError

        # Content, or the listing of a folder, that is in neither cache nor remote.
        unavailable = (FileNotFoundError, DataIndexDirError, DvcException)
        try:
            yield
        except unavailable as error:
            parents = [folder for folder in path.parents if self.system.exists(str(self.prefix / folder))]
            with contextlib.suppress(*unavailable):
                self._folders(parents[0])
                if not self.system.exists(str(self.prefix / path)):
                    raise InputError(f"{self.rev} has no {path}; it was not evaluated in that revision") from error
            raise MissingResource(
                f"{self.label(path)} is not in the DVC cache; get it with `dvc fetch` after "
                f"`git checkout {self.rev}`, or make it there with `dvc repro`"
            ) from error


@dataclass(frozen=True)
class Place:
    """A RUN of the command line: a run of the project with its criteria, or one folder of an evaluation.

    name: in messages; single: is it one folder of one criterion? folders: by seed, with the empty key
    for a run without seeds and a single folder; files: disk or revision; trained: folders of its
    trainings, which may not exist."""

    name: str
    folders: dict[str, Path]
    single: bool
    files: Disk | Revision
    trained: Sequence[Path] = ()

    def criteria(self) -> list[str]:
        """Sorted names of the criteria that all seeds have. Raises InputError if there are none."""
        if self.single:
            (folder,) = self.folders.values()
            with self.files.local(folder, (METRICS,)) as local:
                return [str(evaluation.read_metrics(local).get("inference", folder.name))]
        names = set.intersection(*(set(self.files.below(folder)) for folder in self.folders.values()))
        if not names:
            raise InputError(f"{self.name}: no criterion that all of its trainings have; evaluate the run")
        return sorted(names)

    def check(self, criterion: str) -> str:
        """``criterion``, or that of a single folder. Raises UsageError if it was not evaluated."""
        names = self.criteria()
        if self.single:
            return names[0]
        if criterion not in names:
            message = f"{self.name} has no evaluation under '{criterion}'"
            raise UsageError(errors.missing(message, criterion, names, f"it has: {', '.join(names)}"))
        return criterion

    def read(self, criterion: str) -> Method:
        """The evaluation under ``criterion``. Raises InputError or IntegrityError for missing, outdated
        or damaged files."""
        models = {}
        for seed, folder in self.folders.items():
            run = paths.seed_run(self.name, int(seed)) if seed else self.name
            with self.files.local(folder if self.single else folder / criterion, FILES) as local:
                models[seed] = Compared.read(run, local)
        return Method(self.name, models, self._unconverged())

    def _unconverged(self) -> dict[str, str]:
        """By training, why it has not converged; without those that are not here."""
        reasons = {}
        for folder in self.trained:
            absent = contextlib.suppress(InputError, MissingResource)  # not fetched, or not of this project
            with absent, self.files.local(folder, (model_files.CONFIG,)) as local:
                if reason := model_files.unconverged(read_json(local / model_files.CONFIG)):
                    reasons[run_of_folder(folder)] = reason
        return reasons


def find(name: str, start: Path, params: Params | None, rev: str | None = None) -> Place:
    """A name with a path separator is a folder. Any other name is a run of the project, or a folder if
    there is no such run. rev: take it from this revision; it must lie in the project.

    Raises IntegrityError for evaluations of other models or data than the present ones.
    """
    runs = [] if params is None else sorted({*params.evaluated(), *params.groups})
    if rev is not None:
        if params is None:
            raise UsageError("--base reads from the project's git history: run it inside a vse-pipe project")
        files, is_run = Revision.open(rev), name in runs or not is_path(name)
        return _old_run(name, runs, params, files) if is_run else _old_folder(start / name, files)
    folder = start / name
    if params is not None and (name in runs or (not is_path(name) and paths.evaluations(name).is_dir())):
        return of_run(name, params)
    if (folder / METRICS).is_file():
        return Place(name, {"": folder}, True, Disk(), _beside(folder.resolve()))
    if is_path(name) or params is None:
        raise UsageError(
            f"{folder} has no {METRICS}: RUN is a folder that `vse-pipe evaluate` wrote or, inside a project, a run"
        )
    raise UsageError(errors.unknown("run", name, runs))


def of_run(name: str, params: Params) -> Place:
    """A run of the project. Raises as ``find``, and InputError where it is not evaluated."""
    folders = {}
    for model in params.models(name):
        folder = paths.evaluations(model)
        if not folder.is_dir():
            raise InputError(f"{folder} does not exist; make it with `vse-pipe evaluate --run {model}` or `dvc repro`")
        identity.require_current(folder)
        folders["" if model == name else str(paths.run_seed(model))] = folder
    return Place(name, folders, False, Disk(), [paths.trained(run) for run in params.trainings(name)])


def _old_run(name: str, runs: Sequence[str], params: Params, files: Revision) -> Place:
    folder = paths.evaluations(name)
    seeds = [child for child in files.below(folder) if child.isdecimal()]
    folders = {seed: folder / seed for seed in sorted(seeds, key=int)} or {"": folder}
    trainings = params.trainings(name) if name in runs else [name]
    return Place(f"{files.rev}:{name}", folders, False, files, [paths.trained(run) for run in trainings])


def _old_folder(folder: Path, files: Revision) -> Place:
    folder, root = folder.resolve(), Path.cwd().resolve()
    if not folder.is_relative_to(root):
        raise UsageError(f"{folder} lies outside the project {root}, whose revisions --base reads")
    folder = folder.relative_to(root)
    return Place(f"{files.rev}:{folder}", {"": folder}, True, files, _beside(folder))


def _beside(folder: Path) -> list[Path]:
    """The training whose evaluation is in ``folder``, <root>/data/evaluate/<run>/<criterion>."""
    for root in folder.parents:
        if folder.is_relative_to(root / paths.evaluations("")):
            run = folder.relative_to(root / paths.evaluations("")).parent
            return [root / paths.trained(str(run))]
    return []


def common(a: Place, b: Place, order: Sequence[str]) -> list[str]:
    """Criteria of both sides: those of ``order`` first, then the rest sorted. Raises InputError if
    there are none."""
    names_a, names_b = a.criteria(), b.criteria()
    shared = set(names_a) & set(names_b)
    if not shared:
        listed = f"{a.name} has {', '.join(names_a)}; {b.name} has {', '.join(names_b)}"
        raise InputError(f"no criterion in common: {listed}")
    return [name for name in order if name in shared] + sorted(shared - set(order))


def is_path(name: str) -> bool:
    """Does RUN name a folder and never a run?"""
    return os.sep in name or name in (os.curdir, os.pardir)


def is_evaluation(name: str) -> bool:
    """Is RUN an existing folder of an evaluation, which needs no project? ``max/1`` is a run."""
    return is_path(name) and (Path(name) / METRICS).is_file()
