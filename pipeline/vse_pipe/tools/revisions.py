"""Sides of a comparison: evaluations on the disk, or of a git revision, copied by DVC."""

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
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import Compared, Method


@dataclass(frozen=True)
class Place:
    """A RUN of the command line: a run of the project with its criteria, or one folder of an
    evaluation.

    name: in messages; folders: by seed, with the empty key for a run without seeds and a single
    folder; single: is it one folder of one criterion? trained: folders of its trainings, which may
    not exist."""

    name: str
    folders: dict[str, Path]
    single: bool
    trained: Sequence[Path] = ()

    def criteria(self) -> list[str]:
        """Sorted names of the criteria that all seeds have. Raises InputError if there are none."""
        if self.single:
            (folder,) = self.folders.values()
            return [str(evaluation.read_metrics(folder).get("inference", folder.name))]
        names = set.intersection(*(_criteria(folder) for folder in self.folders.values()))
        if not names:
            raise InputError(f"{self.name}: no criterion that all of its trainings have; evaluate the run")
        return sorted(names)

    def read(self, criterion: str) -> Method:
        """The evaluation under ``criterion``. Raises UsageError if the run was not evaluated under
        it, InputError or IntegrityError for missing or damaged files."""
        if not self.single and criterion not in (names := self.criteria()):
            raise UsageError(f"{self.name} has no evaluation under '{criterion}'; it has: {', '.join(names)}")
        models = {}
        for seed, folder in self.folders.items():
            run = paths.seed_run(self.name, int(seed)) if seed else self.name
            models[seed] = Compared.read(run, folder if self.single else folder / criterion)
        configs = {paths.run_of_folder(folder): folder / model_files.CONFIG for folder in self.trained}
        reasons = {run: model_files.unconverged(read_json(file)) for run, file in configs.items() if file.exists()}
        return Method(self.name, models, {run: reason for run, reason in reasons.items() if reason})


def _criteria(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob(f"*/{METRICS}")}


def find(name: str, start: Path, params: Params | None) -> Place:
    """A name with a path separator is a folder. Any other name is a run of the project, or a folder
    if there is no such run. Raises IntegrityError for evaluations of other models or data than the
    present ones."""
    folder, runs = start / name, _runs(params)
    if params is not None and (name in runs or (not is_path(name) and paths.evaluations(name).is_dir())):
        return _run(name, params)
    if (folder / METRICS).is_file():
        return Place(name, {"": folder}, True, _trained(folder.resolve()))
    if is_path(name) or params is None:
        raise UsageError(
            f"{folder} has no {METRICS}: RUN is a folder that `vse-pipe evaluate` wrote or, inside a project, a run"
        )
    raise UsageError(errors.unknown("run", name, runs))


def _runs(params: Params | None) -> list[str]:
    return [] if params is None else sorted({*params.evaluated(), *params.groups})


def _run(name: str, params: Params) -> Place:
    folders = {}
    for model in params.models(name):
        folder = paths.evaluations(model)
        if not folder.is_dir():
            raise InputError(f"{folder} does not exist; make it with `vse-pipe evaluate --run {model}` or `dvc repro`")
        identity.require_current(folder)
        folders["" if model == name else str(paths.run_seed(model))] = folder
    return Place(name, folders, False, [paths.trained(run) for run in params.trainings(name)])


def _trained(folder: Path) -> list[Path]:
    """The training whose evaluation is in ``folder``, <root>/data/evaluate/<run>/<criterion>."""
    for root in folder.parents:
        if folder.is_relative_to(root / paths.evaluations("")):
            run = folder.relative_to(root / paths.evaluations("")).parent
            return [root / paths.trained(str(run))]
    return []


@contextlib.contextmanager
def past(name: str, start: Path, params: Params | None, rev: str) -> Iterator[Place]:
    """``find`` in a git revision. Errors inside name the revision in place of the temporary folder.

    Raises UsageError for an unknown revision and outside a project, InputError for a run that was
    not evaluated there, MissingResource for content that is not in the DVC cache."""
    if params is None:
        raise UsageError("--base reads from the project's git history: run it inside a vse-pipe project")
    runs, root = _runs(params), Path.cwd().resolve()
    is_run = name in runs or not is_path(name)
    folder = root / paths.evaluations(name) if is_run else (start / name).resolve()
    if not folder.is_relative_to(root):
        raise UsageError(f"{folder} lies outside the project {root}, whose revisions --base reads")
    trainings = params.trainings(name) if name in runs else [name] if is_run else []
    trained = [paths.trained(run) for run in trainings] or [path.relative_to(root) for path in _trained(folder)]
    folder = folder.relative_to(root)
    revision = _Revision.open(rev)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary)
        revision.copy(folder, copy)
        for training in trained:
            with contextlib.suppress(InputError, MissingResource):  # not fetched, or not of this project
                revision.copy(training / model_files.CONFIG, copy)
        seeds = [path.name for path in (copy / folder).iterdir() if path.name.isdecimal()] if is_run else []
        folders = {seed: copy / folder / seed for seed in sorted(seeds, key=int)} or {"": copy / folder}
        label = f"{rev}:{name if is_run else folder}"
        try:
            yield Place(label, folders, not is_run, [copy / path for path in trained])
        except PipelineError as error:
            raise type(error)(str(error).replace(f"{temporary}/", f"{rev}:")) from error


@dataclass(frozen=True)
class _Revision:
    """system: DVC's files of ``rev`` from the root of the git repository; above: the path from
    there to the working directory."""

    rev: str
    system: Any
    above: Path

    @classmethod
    def open(cls, rev: str) -> "_Revision":
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
            raise UsageError(f"--base {rev}: {str(error).splitlines()[0]}; give a commit, tag or branch") from error
        return cls(rev, system, Path.cwd().resolve().relative_to(root.resolve()))

    def copy(self, path: Path, into: Path) -> None:
        """A file or folder, and the folders around it."""
        from dvc.exceptions import DvcException
        from dvc_data.index import DataIndexDirError

        (into / path).parent.mkdir(parents=True, exist_ok=True)
        try:
            if not self.system.exists(str(self.above / path)):
                nearest = next(folder for folder in path.parents if self.system.exists(str(self.above / folder)))
                self.system.ls(str(self.above / nearest))  # fails where its list of files is not in the cache
                raise InputError(f"{self.rev} has no {path}; it was not evaluated in that revision")
            self.system.get(str(self.above / path), str(into / path), recursive=True)
        except (FileNotFoundError, DataIndexDirError, DvcException) as error:
            raise MissingResource(
                f"{self.rev}:{path} is not in the DVC cache; get it with `dvc fetch` after `git checkout {self.rev}`, "
                "or make it there with `dvc repro`"
            ) from error


def common(a: Place, b: Place, order: Sequence[str]) -> list[str]:
    """Criteria of both sides, those of ``order`` first. Raises InputError without any."""
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
