"""Files and folders that the user named on the command line."""

from pathlib import Path

from vse_pipe.core.errors import MissingResource, UsageError


def given(path: Path) -> Path:
    """``path`` if it exists. Raises MissingResource: no command makes it."""
    if not path.exists():
        raise MissingResource(f"{path} does not exist")
    return path


def require_room(out: Path) -> None:
    """Raises UsageError where the folder ``out`` cannot be made because a file lies in its place, or in that of one above it."""
    for path in (out, *out.absolute().parents):
        if path.exists() and not path.is_dir():
            raise UsageError(f"--out: {path} is a file; choose a folder")
