"""Whose artefact a folder holds, for what is said of it."""

from pathlib import Path


def of_folder(folder: Path) -> str:
    """The run whose folder in data/<stage>/ it is: its name, of one of its seeds ``max/1``."""
    parts = folder.parts
    return "/".join(parts[-2:]) if parts[-4:-3] == ("data",) and parts[-1].isdecimal() else folder.name
