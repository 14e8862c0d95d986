"""The pictures below a folder, and what tells that one of them has changed."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from vse_pipe.core import text
from vse_pipe.pictures.address import is_path
from vse_pipe.prepare.engine.seen import Stamp
from vse_pipe.prepare.engine.source import is_text
from vse_pipe.prepare.formats.options import ENDINGS


@dataclass
class FolderPictures:
    """stamps: of the pictures, by name below the folder; left_out: a line for whatever else could have been one."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def walked(source: Path) -> FolderPictures:
    """Strings and one look at each file: a million of them are no rarity."""
    found, waiting = FolderPictures(), [("", str(source))]
    for below, folder in waiting:
        try:
            with os.scandir(folder) as listed:
                entries = [one for one in listed if not one.name.startswith(".")]
        except OSError as error:
            found.left_out.append(f"{_shown(folder)}: the folder cannot be read ({error.strerror})")
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append((f"{below}{entry.name}/", entry.path))
            elif entry.is_symlink() and os.path.isdir(entry):  # noqa: PTH112 (entry.is_dir raises of loops)
                found.left_out.append(f"{_shown(entry.path)}: a link to a folder is not followed")
            elif entry.name.lower().endswith(ENDINGS):
                _take(found, source, below + entry.name, entry)
    _refuse_ids(found, source)
    return found


def _take(found: FolderPictures, source: Path, file: str, entry: os.DirEntry) -> None:
    """Into ``stamps``, or with the reason into ``left_out``."""
    why, stamp = _objection(source, file, entry), stamp_of(entry)
    if why is None and stamp is not None:
        found.stamps[file] = stamp
    else:
        found.left_out.append(f"{_shown(entry.path)}: {why or 'it was removed meanwhile'}")


def _objection(source: Path, file: str, entry: os.DirEntry) -> str | None:
    if not is_text(file):
        return "its name is not UTF-8; rename it"
    if not is_path(file):
        return "its name reads as a place in another file; rename it"
    if entry.is_symlink():
        try:
            target = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):  # the latter of a loop
            return "a link that leads to no file"
        if not target.is_relative_to(source.resolve()):
            return f"a link that leads out of {source}"
    return None


def _refuse_ids(found: FolderPictures, source: Path) -> None:
    files = sorted(found.stamps)
    for row, why in text.objections(pa.array(files, pa.string())).items():
        del found.stamps[files[row]]
        found.left_out.append(f"{_shown(str(source / files[row]))}: its path {why} and cannot be an id; rename it")


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)


def stamp_of(place: Path | os.DirEntry) -> Stamp | None:
    """None where there is no such file any more."""
    try:
        status = place.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
