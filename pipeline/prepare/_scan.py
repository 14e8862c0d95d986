"""Open every image once: does it exist below its root, does it decode, how large is it, what is its digest."""

import hashlib
import io
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from pipeline import console, paths
from pipeline.errors import InputError

# Raster formats only: Pillow starts an external program to draw EPS, and a data set must not decide that.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")
_SHOWN = 3


@dataclass(frozen=True)
class Scanned:
    """Parallel to the files given. widths and heights: pixels as stored, before any EXIF rotation; digests: sha256, hex."""

    widths: list[int]
    heights: list[int]
    digests: list[str]


def scan(root: Path, files: list[str], where: Callable[[int], str]) -> Scanned:
    """Read and decode ``root / file`` for every file, in threads (Pillow and hashlib release the lock).

    where: the place in the data set that names file ``i``. Raises InputError: at the first name that leaves
    ``root``, else with the number of unusable images and the first few of them.
    """
    if not root.is_dir():
        raise InputError(
            f"image folder {root} does not exist; put the images there or set `images` to their folder"
        )
    located = [_locate(root, file, where(number)) for number, file in enumerate(files)]
    with warnings.catch_warnings():
        # Set here and not in the threads: the filters belong to the whole process.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            results = list(console.track(pool.map(_open, located), len(files), "images"))
    failures = [
        f"{where(i)}: {files[i]} {result}" for i, result in enumerate(results) if isinstance(result, str)
    ]
    if failures:
        more = f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
        raise InputError(
            f"{len(failures)} of {len(files)} images below {root} cannot be used: {'; '.join(failures[:_SHOWN])}{more}"
        )
    return (
        Scanned(*(list(column) for column in zip(*results, strict=True))) if results else Scanned([], [], [])
    )


def _locate(root: Path, file: str, where: str) -> Path:
    # An absolute name would be stored as it is and name nothing on another machine, even where it lies below the root.
    if Path(file).is_absolute():
        raise InputError(
            f"{where}: file {file!r} is absolute; names must be relative to {root} and stay below it"
        )
    return paths.inside(root, file, where)


def _open(path: Path) -> tuple[int, int, str] | str:
    """(width, height, sha256), or why the image cannot be used."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            size = image.size
            # A JPEG still has to be read to its last block, but is drawn at an eighth of its size.
            image.draft(image.mode, (1, 1))
            image.load()
    except UnidentifiedImageError:
        return f"is no image in a known format ({len(content)} bytes, the first are {content[:12]!r})"
    except Exception as error:  # Pillow's decoders raise nearly every built-in error on damaged bytes
        return f"does not decode ({type(error).__name__}: {error})"
    return *size, hashlib.sha256(content).hexdigest()
