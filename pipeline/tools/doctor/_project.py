"""The project around the working directory, if there is one: doctor works without."""

from pathlib import Path

from pipeline.core.errors import UsageError
from pipeline.project.paths import find_root


def root() -> Path | None:
    try:
        return find_root(Path.cwd())
    except UsageError:
        return None
