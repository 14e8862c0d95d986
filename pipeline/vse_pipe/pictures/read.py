"""The bytes of a picture, and the checks of an image file before its pixels are decoded."""

import contextlib
import io
import math
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from vse_pipe.core import files, remote
from vse_pipe.core.errors import (
    InputError,
    IntegrityError,
    MissingResource,
    PipelineError,
    UnreadableImage,
)
from vse_pipe.core.files import inside
from vse_pipe.pictures import address
from vse_pipe.pictures.address import Cell, TarMember, parse, path_of

# Raster formats only: for EPS, Pillow would start an external program.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
_SHOWN = 12

# Pictures that Pillow warns of are refused below.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


def open_picture(content: bytes, name: str) -> Image.Image:
    """The image with its header read and its pixels not yet decoded.

    Raises UnreadableImage: empty, no known format, a damaged header, floating point pixels, or more
    than ``Image.MAX_IMAGE_PIXELS``.
    """
    if not content:
        raise UnreadableImage(name, "is empty (0 bytes)")
    with decoding(name):
        try:
            image = Image.open(io.BytesIO(content), formats=FORMATS)
            if math.prod(image.size) > (Image.MAX_IMAGE_PIXELS or math.inf):
                raise Image.DecompressionBombError
        except Image.DecompressionBombError as error:
            raise UnreadableImage(name, f"has too many pixels (more than {Image.MAX_IMAGE_PIXELS})") from error
        except UnidentifiedImageError as error:
            start = f"{len(content)} bytes, the first are {content[:_SHOWN]!r}"
            raise UnreadableImage(name, f"is no image in a known format ({start})") from error
    if image.mode == "F":
        raise UnreadableImage(
            name, "has floating point numbers of unknown range for pixels; save it with 8 bits a channel"
        )
    return image


@contextlib.contextmanager
def decoding(name: str) -> Iterator[None]:
    """Raises UnreadableImage for damaged bytes, for which Pillow raises nearly any exception."""
    try:
        yield
    except (PipelineError, MemoryError):
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise UnreadableImage(name, f"does not decode ({type(error).__name__}: {text})") from error


# Bytes of an image: more than any decodable picture has in any format.
LARGEST = 2**29
_AGAIN = "it is not the file that prepare read; run `vse-pipe prepare` again"


def content(root: Path, file: str, where: str) -> bytes:
    """The bytes of the image ``file`` below ``root``. where: the row with its name.

    Raises UnreadableImage when it is missing, no regular file, too large or a cell without bytes,
    InputError for a name outside ``root`` and an unreadable shard, IntegrityError for a shortened
    shard.
    """
    inside(root, path_of(file), where)
    return at(root / file, where)


def at(address: Path, where: str = "") -> bytes:
    """``content`` of a path that joins root and ``file``, checked by ``inside``."""
    where, place = where or str(address), parse(str(address))
    if isinstance(place, str):
        return _plain(Path(place), where)
    path = Path(place.file)
    return _member(path, place, where) if isinstance(place, TarMember) else _cell(path, place, where)


def photo(path: Path) -> bytes:
    """The bytes of a file of the command line, or MissingResource, or UnreadableImage."""
    if not path.exists():
        raise MissingResource(f"{path}: no such file")
    return _plain(path, "--image")


def _plain(path: Path, where: str) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe could wait forever
            raise UnreadableImage(str(path), "is no regular file")
        _refuse_large(str(path), status.st_size)
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UnreadableImage(f"{path} ({where})", "does not exist") from error
    except OSError as error:
        raise UnreadableImage(f"{path} ({where})", f"cannot be read ({error.strerror})") from error


def _refuse_large(name: str, size: int) -> None:
    if size > LARGEST:
        raise UnreadableImage(name, f"has {size} bytes, more than the {LARGEST} that are read")


def _member(shard: Path, member: TarMember, where: str) -> bytes:
    _refuse_large(f"{shard} {member.name}", member.size)
    try:
        content = remote.piece(shard, member.offset, member.size)
    except OSError as error:
        raise InputError(f"{where}: shard {shard} cannot be read ({error.strerror})") from error
    if len(content) != member.size:
        raise IntegrityError(f"{where}: {files.url(shard)} ends before {member.name} does; {_AGAIN}")
    return content


def _cell(path: Path, cell: Cell, where: str) -> bytes:
    try:
        content = address.value(path, cell.row, cell.column)
    except (IndexError, OSError) as error:
        raise IntegrityError(f"{where}: {path} {error}; {_AGAIN}") from error
    if content is None:
        raise UnreadableImage(f"{path} row {cell.row}", f"holds no bytes in column '{cell.column}'")
    _refuse_large(f"{path} row {cell.row}", len(content))
    return content
