"""What a failed write says: which file it was for, what that needs and what the disk has room for."""

import contextlib
import errno
import os
import re
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def named(path: Path, size: int | None = None, written_at: Path | None = None) -> Iterator[None]:
    """A full disk does not say which file it was: an OSError without a name, or with one at or below ``written_at``, gets
    that of ``path``, and says what there is room for. size: bytes that the file takes, if they are known."""
    try:
        yield
    except OSError as error:
        of = written_at if error.filename is None else Path(str(error.filename))
        if error.filename is None or of == written_at:
            error.strerror = _of_a_full_disk(error, path, size)
        if of is None or (written_at is not None and of.is_relative_to(written_at)):
            error.filename = str(path / of.relative_to(written_at) if of and written_at else path)
        raise


def _of_a_full_disk(error: OSError, path: Path, size: int | None) -> str:
    """What ``error`` says, with the room that it lacks. Arrow and safetensors hide the number in their text, and numpy has
    none."""
    hidden = re.search(r"(?:errno|os error) (\d+)", str(error), re.IGNORECASE)
    number = error.errno or (int(hidden[1]) if hidden else errno.ENOSPC if "requested and" in str(error) else 0)
    if number not in _FULL:
        return error.strerror or str(error)
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    room = shutil.disk_usage(next(folder for folder in path.absolute().parents if folder.exists())).free
    room = room if largest == resource.RLIM_INFINITY else min(room, largest)
    needed = "more than that" if size is None else _amount(size)
    return f"{os.strerror(number)}: there is room for {_amount(room)}, and it needs {needed}"


def _amount(size: int) -> str:
    units = ((9, "GB"), (6, "MB"), (3, "kB"), (0, "bytes"))
    return next(f"{size / 10**digits:.1f} {unit}" for digits, unit in units if size >= 10**digits or not digits)
