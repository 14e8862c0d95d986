"""Where the files of an evaluation come from: the disk, or a git revision through DVC."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vse_pipe.artifacts.evaluation import METRICS
from vse_pipe.core.errors import InputError, MissingResource, PipelineError, UsageError


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
