"""The one place that turns the name of an image into its bytes, wherever they lie."""

import stat
from pathlib import Path

from vse_pipe.core import files, remote
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UnreadableImage
from vse_pipe.core.files import inside
from vse_pipe.pictures import cells
from vse_pipe.pictures.address import Cell, TarMember, parse, path_of

# Of one image: more than any picture that may be decoded has in any format, far less than memory.
LARGEST = 2**29
_AGAIN = "it is not the file that prepare read; run `vse-pipe prepare` again"


def content(root: Path, file: str, where: str) -> bytes:
    """The bytes of the image that ``file`` names below ``root``; safe in threads. where: the row that names it.

    Raises UnreadableImage when it is missing, no regular file, too large or a cell without bytes. Raises InputError for
    a name that leaves ``root`` and a shard that cannot be opened, IntegrityError for one that is shorter than it was.
    """
    return _content(inside(root, path_of(file), where), file, where)


def at(path: Path) -> bytes:
    """As ``content``, of root and ``file`` of images.parquet already joined and checked by ``inside``."""
    return _content(file_of(path), str(path), str(path))


def file_of(path: Path) -> Path:
    """The file on the disk that holds the picture. path: as of ``at``."""
    return Path(path_of(str(path)))


def photo(path: Path) -> bytes:
    """A file that somebody names on the command line. Raises MissingResource when it is not there, UnreadableImage as
    ``content``."""
    if not path.exists():
        raise MissingResource(f"{path}: no such file")
    return _plain(path, "--image")


def _content(path: Path, file: str, where: str) -> bytes:
    match parse(file):
        case TarMember() as member:
            return _member(path, member, where)
        case Cell() as cell:
            return _cell(path, cell, where)
    return _plain(path, where)


def _plain(path: Path, where: str) -> bytes:
    try:
        status = path.stat()
        _refuse_odd(path, status.st_mode, status.st_size)
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UnreadableImage(f"{path} ({where})", "does not exist") from error
    except OSError as error:
        raise UnreadableImage(f"{path} ({where})", f"cannot be read ({error.strerror})") from error


def _refuse_odd(path: Path, mode: int, size: int) -> None:
    # A pipe would be waited for without end.
    if stat.S_ISDIR(mode):
        raise UnreadableImage(str(path), "is a folder")
    if not stat.S_ISREG(mode):
        raise UnreadableImage(str(path), "is no regular file")
    _refuse_large(str(path), size)


def _refuse_large(name: str, size: int) -> None:
    if size > LARGEST:
        raise UnreadableImage(name, f"has {size} bytes, more than the {LARGEST} that are read")


def _member(shard: Path, member: TarMember, where: str) -> bytes:
    _refuse_large(f"{shard} {member.name}", member.size)
    try:
        if files.is_remote(shard):
            found = remote.piece(shard, member.offset, member.size)
        else:
            with shard.open("rb") as file:
                file.seek(member.offset)
                found = file.read(member.size)
    except OSError as error:
        raise InputError(f"{where}: shard {shard} cannot be read ({error.strerror})") from error
    if len(found) != member.size:
        raise IntegrityError(f"{where}: {files.url(shard)} ends before {member.name} does; {_AGAIN}")
    return found


def _cell(path: Path, cell: Cell, where: str) -> bytes:
    try:
        found = cells.value(path, cell.row, cell.column)
    except IndexError as error:
        raise IntegrityError(f"{where}: {path} {error}; {_AGAIN}") from error
    if found is None:
        raise UnreadableImage(f"{path} row {cell.row}", f"holds no bytes in column '{cell.column}'")
    _refuse_large(f"{path} row {cell.row}", len(found))
    return found
