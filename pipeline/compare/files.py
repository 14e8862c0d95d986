"""Where the files of an evaluation come from: the disk, or a git revision through DVC."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.artifacts.evaluation import METRICS
from pipeline.errors import InputError, MissingResource, PipelineError, UsageError


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
    """rev: a commit, tag or branch; system: DVC's view of it; prefix: from the root of the DVC repository to here."""

    rev: str
    system: Any
    prefix: Path

    @classmethod
    def open(cls, rev: str) -> "Revision":
        """Raises UsageError when there is no such revision, or no DVC repository around the working directory."""
        from dvc.api import DVCFileSystem
        from dvc.exceptions import DvcException
        from dvc.repo import Repo

        try:
            root = Path(Repo.find_root())
            system = DVCFileSystem(str(root), rev=rev)
            system.repo.index  # noqa: B018 (the repository is opened on first use)
        except DvcException as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"--base {rev}: {reason}; give a commit, tag or branch of this repository"
            ) from error
        return cls(rev, system, Path.cwd().resolve().relative_to(root.resolve()))

    def shown(self, folder: Path) -> str:
        return f"{self.rev}:{folder}"

    def below(self, folder: Path) -> list[str]:
        with self._explained(folder):
            entries = self.system.ls(str(self.prefix / folder), detail=True)
            return sorted(Path(entry["name"]).name for entry in entries if entry["type"] == "directory")

    @contextlib.contextmanager
    def local(self, folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as temporary:
            here = Path(temporary) / folder
            here.mkdir(parents=True)
            for name in names:
                with self._explained(folder):
                    self.system.get_file(str(self.prefix / folder / name), str(here / name))
            try:
                yield here
            except PipelineError as error:
                # Messages name the file that was copied; people know it by its revision.
                raise type(error)(str(error).replace(f"{temporary}/", f"{self.rev}:")) from error

    @contextlib.contextmanager
    def _explained(self, folder: Path) -> Iterator[None]:
        from dvc.exceptions import DvcException

        try:
            yield
        except (FileNotFoundError, DvcException) as error:
            if not self._tracked(folder):
                raise InputError(
                    f"{self.rev} has no {folder}: it was not evaluated in that revision"
                ) from error
            raise MissingResource(
                f"{self.shown(folder)} is not in the DVC cache; get it with `dvc fetch` after "
                f"`git checkout {self.rev}`, or make it there with `dvc repro`"
            ) from error

    def _tracked(self, folder: Path) -> bool:
        root = self.system.repo.root_dir
        path = Path(root) / self.prefix / folder
        return any(
            path.is_relative_to(out.fs_path) or Path(out.fs_path).is_relative_to(path)
            for out in self.system.repo.index.outs
        )
