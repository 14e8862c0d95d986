"""Files that the user named on the command line."""

from pathlib import Path

from pipeline.core.errors import MissingResource


def given(path: Path) -> Path:
    """``path`` if it exists. Raises MissingResource: no command makes it."""
    if not path.exists():
        raise MissingResource(f"{path} does not exist")
    return path
