"""vse-pipe sources."""

from typing import TYPE_CHECKING

from vse_pipe.commands import _project

if TYPE_CHECKING:
    from vse_pipe.project.sources import SourceFiles


def sources() -> None:
    """List the files from outside that each stage reads below data/sources/: pictures, captions, vectors, weights; the first stage
    of dvc.yaml.

    DVC watches these lists. Only names and content are in them, and only files whose size or time has changed are read.
    """
    from vse_pipe.tools import lists

    _project.enter_root()
    lists.write_sources(_project.overrides, _find)


def _find() -> "dict[str, list[SourceFiles]]":
    from vse_pipe.project import stages

    return stages.sources(_project.params())
