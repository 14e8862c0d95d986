"""Samples in a tar shard, found by reading its headers; nothing is unpacked."""

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from vse_pipe.core import memory
from vse_pipe.core.errors import InputError
from vse_pipe.pictures.address import TarMember
from vse_pipe.prepare.engine.source import is_text

_BLOCK = 512
_LONGEST_TEXT = 2**20
# Bytes from one member's data to the next one's: what names, times and owners take, a hundred times over.
_LONGEST_HEADER = 2**20
# Bytes that a member takes in memory, with its name.
_OF_MEMBER = 1000


@dataclass
class Sample:
    """The members whose names begin with ``key``, by what follows its dot, in lower case."""

    key: str
    members: dict[str, TarMember] = field(default_factory=dict)


def samples(path: Path, file: BinaryIO) -> list[Sample]:
    """The samples of a shard in its order. path: for messages and addresses.

    A key is a name up to the first dot of its last part, as webdataset has it. Folders are passed over. Raises InputError:
    no tar file, cut off or damaged, a link or another member that is no plain file, a key that comes again after another
    one, two members of one key with the same ending.
    """
    found: list[Sample] = []
    seen = set()
    for name, member in _members(path, file):
        key, ending = _split(name)
        if not found or key != found[-1].key:
            if key in seen:
                raise InputError(
                    f"{path}: key '{key}' comes again after other keys; the files of a sample must stand together"
                )
            seen.add(key)
            found.append(Sample(key))
        if ending in found[-1].members:
            raise InputError(f"{path}: key '{key}' has two files '.{ending}'")
        found[-1].members[ending] = member
    return found


def text(path: Path, file: BinaryIO, member: TarMember) -> str:
    """A member's content as UTF-8 text without its final line break. Raises InputError."""
    if member.size > _LONGEST_TEXT:
        raise InputError(f"{path} {member.name}: {member.size} bytes are no caption")
    file.seek(member.offset)
    try:
        found = file.read(member.size).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} {member.name}: not UTF-8 text ({error})") from error
    return found.removesuffix("\n").removesuffix("\r")


def _members(path: Path, file: BinaryIO) -> Iterator[tuple[str, TarMember]]:
    """Names with their folders, which the members themselves lose: an address must hold no ``..``."""
    try:
        headers = _Headers(file)
        with tarfile.open(fileobj=headers, mode="r:") as tar:  # type: ignore[call-overload]
            end = 0
            while (info := tar.next()) is not None:
                headers.read_since = 0
                memory.take(str(path), _OF_MEMBER + 2 * len(info.name))
                # tarfile would keep every member of every shard; typeshed does not know the list it keeps them in.
                tar.members = []  # type: ignore[attr-defined]
                if info.size < 0 or info.offset_data < end:
                    raise InputError(f"{path}: damaged at byte {info.offset}: a member lies before its predecessor")
                end = info.offset_data + info.size
                if not info.isdir():
                    yield info.name, _member(path, info)
            _refuse_cut(path, file, tar.offset)
    # RecursionError: thousands of extended headers, each about the next one.
    except (tarfile.TarError, OSError, ValueError, EOFError, RecursionError) as error:
        raise InputError(f"{path}: not a whole tar file ({error}); copy it again") from error


class _Headers:
    """A file of which tarfile reads headers alone. A header may announce any length for a name, and tarfile would read it;
    any number of them may follow each other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.read_since = file, 0
        self.tell, self.seek = file.tell, file.seek

    def read(self, size: int) -> bytes:
        self.read_since += size
        if self.read_since > _LONGEST_HEADER:
            raise ValueError(f"a header of more than {_LONGEST_HEADER} bytes at byte {self._file.tell()}")
        return self._file.read(size)


def _member(path: Path, info: tarfile.TarInfo) -> TarMember:
    if not info.isreg() or info.issparse():
        raise InputError(f"{path}: {info.name!r} is a link or a special file; a shard holds plain files")
    if not is_text(info.name):
        raise InputError(f"{path}: the name {info.name!r} is not UTF-8; rename it and write the shard again")
    return TarMember(path.name, info.offset_data, info.size, info.name.rpartition("/")[2])


def _refuse_cut(path: Path, file: BinaryIO, end: int) -> None:
    # tarfile takes a damaged header, and the end of a file cut between two members, for the end of the archive.
    file.seek(end)
    if file.read(_BLOCK) != bytes(_BLOCK):
        raise InputError(f"{path}: damaged, or cut off, at byte {end}: there is no end-of-archive mark; copy it again")


def _split(name: str) -> tuple[str, str]:
    folder, slash, base = name.rpartition("/")
    stem, _, ending = base.partition(".")
    return folder + slash + stem, ending.lower()
