"""A folder of pictures, and what is made of it."""

import os
from pathlib import Path

from tests.prepare._data import pictures

NAMES = ["a b.png", "deep/c.png", "d.png", "e'\".png", "\u00e9.png"]
LONG_AGO = 1_600_000_000


def photos(folder: Path, names: list[str]) -> None:
    pictures(folder, names)
    for name in names:
        os.utime(folder / name, (LONG_AGO, LONG_AGO))


def contents(*folders: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.*")) if path.is_file()
    }
