"""Names of pictures: their endings, and the file that is meant where a name names none."""

import unicodedata
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

from vse_pipe.core.files import is_remote

_KINDS = "jpg jpeg jpe jfif png webp gif bmp tif tiff ppm pgm pbm pnm jp2 j2k avif heic heif"
# Endings of pictures in a folder.
ENDINGS = tuple(f".{kind}" for kind in _KINDS.split())
_MOST_ENDINGS = 2
_FOLDERS = 16


def near_name(root: Path, file: str) -> str:
    """``", but 'a.JPG' does"``, for a message that ``file`` does not exist below ``root``, or an empty string.

    The near name is that of ``nearest``."""
    if file.startswith(("http:/", "https:/")):
        return ": it is a URL, so download the pictures"
    near = nearest(root, file)
    # Letters that look alike are shown as numbers.
    if near and unicodedata.normalize("NFC", near) == unicodedata.normalize("NFC", file):
        return f", but {near!a} does, whose letters are in another Unicode form"
    return f", but {near!r} does" if near else ""


def nearest(root: Path, file: str) -> str:
    """The name below ``root`` that differs from ``file`` only in case, Unicode form, kind of slash, spaces at its ends,
    ``%20`` or its ending, or that lacks the first folders; "" where there is none."""
    if is_remote(root):
        return ""
    parts = [part.strip() for part in file.replace("\\", "/").split("/")]
    parts = [part for part in parts if part not in ("", ".", "..")]
    names = (_below(root, parts[first:]) for first in range(len(parts)))
    return next((name for name in names if name not in ("", file)), "")


def _below(root: Path, parts: list[str]) -> str:
    """The name below ``root`` with these parts, or ""."""
    names: list[str] = []
    for place, part in enumerate(parts):
        try:
            folder = root.joinpath(*names)
            listed = _listing(folder, folder.stat().st_mtime_ns)
        except (OSError, ValueError):
            return ""
        keys = [part, _key(part)]
        if place + 1 == len(parts):
            stems = [_key(part)]
            for _ in range(_MOST_ENDINGS):  # 1.jpg.1, 1.jpg#0
                stems.append(stems[-1].rpartition(".")[0] or stems[-1])
            keys += [*stems, *(f"{stem}." for stem in stems)]
        name = next((listed[key] for key in keys if key in listed), None)
        if name is None:
            return ""
        names.append(name)
    return "/".join(names)


@lru_cache(maxsize=_FOLDERS)
def _listing(folder: Path, modified: int) -> dict[str, str]:
    """The names in a folder by themselves, by ``_key``, and those of pictures without their ending, as ``stem.``"""
    names: dict[str, str] = {}
    for name in sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")):
        names[name] = name
        names.setdefault(_key(name), name)
        if name.lower().endswith(ENDINGS):
            names.setdefault(f"{_key(name).rpartition('.')[0]}.", name)
    return names


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", unquote(name).strip()).casefold()
