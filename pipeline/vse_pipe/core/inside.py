"""Names of files that come from a user's table."""

from pathlib import Path

from vse_pipe.core.errors import InputError
from vse_pipe.core.urls import is_remote, url


def inside(root: Path, name: str, where: str) -> Path:
    """``root / name``, refused when it leaves ``root`` by an absolute name, by ``..`` or by a symbolic link.

    where: the file and row that named it, for the message. Raises InputError.
    """
    path = root / name
    if is_remote(root):  # nothing is resolved there, and keys may look like anything
        if {"..", ""} & set(name.split("/")) or not is_remote(path) or "\0" in name:
            raise InputError(f"{where}: file {name!r} lies outside its root {url(root)}; names must stay below it")
        return path
    try:
        outside = "\0" in name or not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links; half a surrogate pair
        raise InputError(f"{where}: file {name!r} names no file ({error})") from error
    if outside:
        raise InputError(f"{where}: file {name!r} lies outside its root {root}; names must stay below it")
    return path
