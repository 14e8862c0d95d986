"""Where the files of an evaluation come from: the disk, or a git revision through DVC."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions, evaluation, images, joins
from vse_pipe.artifacts.evaluation import METRICS
from vse_pipe.core.console import say
from vse_pipe.core.errors import (
    InputError,
    IntegrityError,
    MissingResource,
    PipelineError,
    UsageError,
    missing,
    unknown,
)
from vse_pipe.project import paths, repetitions
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import Compared, Method


class Files(Protocol):
    """Folders of evaluations, relative to the working directory."""

    def shown(self, folder: Path) -> str:
        """``folder`` as messages name it."""

    def below(self, folder: Path) -> list[str]:
        """Names of the folders in ``folder`` that hold an evaluation, sorted."""

    def local(self, folder: Path, names: tuple[str, ...]) -> contextlib.AbstractContextManager[Path]:
        """A folder on disk with those files of ``folder``."""


class Disk:
    """The work tree."""

    def shown(self, folder: Path) -> str:
        return str(folder)

    def below(self, folder: Path) -> list[str]:
        return sorted(path.parent.name for path in folder.glob(f"*/{METRICS}"))

    @contextlib.contextmanager
    def local(self, folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
        yield folder


@dataclass(frozen=True)
class Revision:
    """rev: a commit, tag or branch; system: DVC's view of it from the root of the git repository; prefix: the
    path from there to the working directory."""

    rev: str
    system: Any
    prefix: Path

    @classmethod
    def open(cls, rev: str) -> "Revision":
        """Raises UsageError when there is no such revision, or no DVC repository around the working
        directory."""
        from dvc.api import DVCFileSystem
        from dvc.exceptions import DvcException
        from dvc.repo import Repo

        try:
            with Repo(Repo.find_root()) as repo:
                root = Path(repo.scm.root_dir)
            # The root of DVC may lie below that of git, which is the only one that a revision has.
            system = DVCFileSystem(str(root), rev=rev, subrepos=True)
            system.info("")
        except DvcException as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"--base {rev}: {reason}; give a commit, tag or branch of this repository") from error
        return cls(rev, system, Path.cwd().resolve().relative_to(root.resolve()))

    def shown(self, folder: Path) -> str:
        return f"{self.rev}:{folder}"

    def below(self, folder: Path) -> list[str]:
        with self._explained(folder):
            entries = self._list(folder)
        return sorted(Path(entry["name"]).name for entry in entries if entry["type"] == "directory")

    @contextlib.contextmanager
    def local(self, folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as temporary:
            here = Path(temporary) / folder
            here.mkdir(parents=True)
            for name in names:
                with self._explained(folder / name):
                    self.system.get_file(str(self.prefix / folder / name), str(here / name))
            try:
                yield here
            except PipelineError as error:
                # Messages name the file that was copied; people know it by its revision.
                raise type(error)(str(error).replace(f"{temporary}/", f"{self.rev}:")) from error

    def _list(self, folder: Path) -> list[dict]:
        return self.system.ls(str(self.prefix / folder), detail=True)

    @contextlib.contextmanager
    def _explained(self, path: Path) -> Iterator[None]:
        unavailable = _unavailable()
        try:
            yield
        except unavailable as error:
            if self._absent(path):
                raise InputError(f"{self.rev} has no {path}; it was not evaluated in that revision") from error
            raise MissingResource(
                f"{self.shown(path)} is not in the DVC cache; get it with `dvc fetch` after "
                f"`git checkout {self.rev}`, or make it there with `dvc repro`"
            ) from error

    def _absent(self, path: Path) -> bool:
        """Is the path no part of the revision? Else only its content is missing, or the listing of a folder
        around it."""
        try:
            around = (one for one in (path, *path.parents) if self.system.exists(str(self.prefix / one)))
            if (there := next(around, None)) is not None:
                self._list(there)
        except _unavailable():
            return False
        return there != path


def _unavailable() -> tuple[type[Exception], ...]:
    """What DVC raises for content that is in neither cache nor remote, the second for a folder's listing."""
    from dvc.exceptions import DvcException
    from dvc_data.index import DataIndexDirError

    return FileNotFoundError, DataIndexDirError, DvcException


# What RUN on the command line means: a run of the project, with its criteria, or one folder of an
# evaluation.


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


@dataclass(frozen=True)
class Contents:
    """What the ids of a split stand for. images, captions: ids by content; the index has the digest of an image, its box and
    its captions, or that of the image and the text, and a running number among those that are alike."""

    images: pd.Series
    captions: pd.Series


def aligned(a: Place, b: Place, sides: tuple[Method, Method], params: Params | None) -> Method:
    """B with the ids that A has for the same pictures and captions; B as it is where both ranked the same ids already.

    Raises InputError where the pictures or captions differ, IntegrityError where data/prepare no longer holds what was ranked. Folders of an
    evaluation are left as they are: which data set they belong to is not known.
    """
    of_a, of_b = sides
    data = [side.metrics.get("data") for side in sides]
    if params is None or a.single or b.single or None in data or data[0] == data[1]:
        return of_b
    if of_a.metrics.get("split") != of_b.metrics.get("split"):
        return of_b
    first, second = (_contents(place, side, params) for place, side in zip((a, b), sides, strict=True))
    if first is None or second is None:
        return of_b
    of_images = _ids(first.images, second.images, a.name, b.name, "images with their captions")
    of_captions = _ids(first.captions, second.captions, a.name, b.name, "captions")
    say(f"compare: {a.name} and {b.name} ranked the same pictures and captions under other ids")
    models = {seed: _renamed(model, of_images, of_captions, str(data[0])) for seed, model in of_b.models.items()}
    return Method(of_b.name, models)


def _contents(place: Place, side: Method, params: Params) -> Contents | None:
    """None where the data set is not known, or not there."""
    run = place.name.rpartition(":")[2]
    models = params.models(run)
    if models[0] not in params.evaluated():
        return None
    folder, split = paths.prepared(params.dataset(models[0])), side.metrics["split"]
    try:
        with place.files.local(folder, (images.NAME, captions.NAME)) as local:
            pictures, texts = images.read(local), captions.read(local)
    except (InputError, MissingResource):
        return None
    if joins.by_split(pictures, texts).get(split) != side.metrics["data"]:
        raise IntegrityError(
            f"{place.name} was measured on other data than {place.files.shown(folder)} holds now; run `dvc repro`, or "
            f"`vse-pipe embed --run {run}` and `vse-pipe evaluate --run {run}` again"
        )
    return _by_content(*(table.filter(pc.equal(table["split"], split)) for table in (pictures, texts)))


def _by_content(pictures: pa.Table, texts: pa.Table) -> Contents:
    boxes = pc.struct_field(pc.extract_regex(pictures["file"], joins.BOX), "box").to_pandas().fillna("")
    ids = pictures["image_id"].to_numpy()
    described = (
        texts.select(["image_id", "text"]).to_pandas().sort_values("text").groupby("image_id")["text"].agg(tuple)
    )
    said = described.reindex(ids).reset_index(drop=True).astype(str)
    known = _numbered([pictures["sha256"].to_pandas(), boxes, said], ids)
    owners = pd.Series(known.index.to_flat_index(), index=known.to_numpy())
    of_captions = owners.reindex(texts["image_id"].to_numpy()).reset_index(drop=True)
    return Contents(known, _numbered([of_captions, texts["text"].to_pandas()], texts["caption_id"].to_numpy()))


def _numbered(parts: list[pd.Series], ids: np.ndarray) -> pd.Series:
    """Ids by these parts and a running number among the rows whose parts are alike."""
    frame = pd.DataFrame(dict(enumerate(parts)))
    number = frame.groupby(list(frame.columns), sort=False).cumcount()
    return pd.Series(ids, index=pd.MultiIndex.from_arrays([*(frame[name] for name in frame), number]))


def _ids(a: pd.Series, b: pd.Series, name_a: str, name_b: str, what: str) -> pd.Series:
    """The ids of A by those of B. Raises InputError where one has contents that the other lacks."""
    apart = len(a.index.symmetric_difference(b.index, sort=False))
    if apart:
        raise InputError(
            f"{name_a} and {name_b} cannot be compared: measured on other data, {len(a)} and {len(b)} {what}, of which "
            f"{apart} are on one side only"
        )
    return pd.Series(a.reindex(b.index).to_numpy(), index=b.to_numpy())


def _renamed(model: Compared, of_images: pd.Series, of_captions: pd.Series, data: str) -> Compared:
    def ids(held: np.ndarray, is_image: np.ndarray) -> pa.Array:
        made = np.empty(len(held), np.int64)
        for rows, known in ((is_image, of_images), (~is_image, of_captions)):
            renamed = known.reindex(held[rows])
            if renamed.isna().any():
                raise InputError(
                    f"{model.name}: the evaluation names ids that its data set does not have; evaluate again"
                )
            made[rows] = renamed.to_numpy()
        return pa.array(made)

    ranks, occurrence = model.ranks, model.occurrence
    from_images = pc.equal(ranks["direction"], "image_to_text").to_numpy()
    lists = ranks["top"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    flat, rows = (part.to_numpy() for part in (pc.list_flatten(lists), pc.list_parent_indices(lists)))
    ends = np.cumsum([0, *pc.list_value_length(lists).to_numpy()]).astype(np.int32)
    renamed = {
        "query_id": ids(ranks["query_id"].to_numpy(), from_images),
        "image_id": ids(ranks["image_id"].to_numpy(), np.full(len(ranks), True)),
        "top": pa.ListArray.from_arrays(pa.array(ends), ids(flat, ~from_images[rows]), type=lists.type),
    }
    for name, column in renamed.items():
        ranks = ranks.set_column(ranks.schema.get_field_index(name), name, column)
    items = ids(occurrence["item_id"].to_numpy(), pc.equal(occurrence["direction"], "text_to_image").to_numpy())
    occurrence = occurrence.set_column(occurrence.schema.get_field_index("item_id"), "item_id", items)
    return replace(model, metrics={**model.metrics, "data": data}, ranks=ranks, occurrence=occurrence)
