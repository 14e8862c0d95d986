"""Data sets in shards: samples of a tar file by its headers, files of a split, tables."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from vse_pipe.core import files as core_files
from vse_pipe.core import remote
from vse_pipe.core.errors import InputError
from vse_pipe.pictures.address import TarMember
from vse_pipe.prepare.formats.options import RANGE, ShardParams
from vse_pipe.prepare.scan import locate
from vse_pipe.prepare.source import existing, is_text

_BLOCK = 512
_LONGEST_TEXT = 2**20
# Bytes between the data of two members: a hundred times what names, times and owners take.
_LONGEST_HEADER = 2**20


def samples(path: Path, file: BinaryIO) -> dict[str, dict[str, TarMember]]:
    """The members of each sample by their endings in lower case, by key in the order of the shard.
    path: for messages and addresses.

    A key is a name up to the first dot of its last part, as in webdataset. Folders and hidden
    files, such as the ``._`` members of a Mac, are skipped. Raises InputError for a file that is no
    tar file, cut off or damaged; a member that is no plain file; a key that is repeated after other
    keys; two members of a key with the same ending."""
    listed: dict[str, dict[str, TarMember]] = {}
    last = None
    for name, member in _members(path, file):
        folder, slash, base = name.rpartition("/")
        if base.startswith("."):
            continue
        stem, _, ending = base.partition(".")
        key = folder + slash + stem
        if key != last and key in listed:
            raise InputError(f"{path}: key '{key}' comes again after other keys; keep the files of a sample together")
        last = key
        if listed.setdefault(key, {}).setdefault(ending.lower(), member) is not member:
            raise InputError(f"{path}: key '{key}' has two files '.{ending.lower()}'")
    return listed


def text(path: Path, file: BinaryIO, member: TarMember) -> str:
    """The content of a member as UTF-8 text without its final line break. Raises InputError."""
    if member.size > _LONGEST_TEXT:
        raise InputError(f"{path} {member.name}: {member.size} bytes are no caption")
    file.seek(member.offset)
    try:
        content = file.read(member.size).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} {member.name}: not UTF-8 text ({error})") from error
    return content.removesuffix("\n").removesuffix("\r")


def _members(path: Path, file: BinaryIO) -> Iterator[tuple[str, TarMember]]:
    """The members with their names in folders. An address must hold no ``..``."""
    try:
        headers = _Headers(file)
        with tarfile.open(fileobj=headers, mode="r:") as tar:  # type: ignore[call-overload]
            end = 0
            while (info := tar.next()) is not None:
                headers.read_since = 0
                # tarfile would keep every member of every shard in a list that typeshed does not
                # know.
                tar.members = []  # type: ignore[attr-defined]
                if info.size < 0 or info.offset_data < end:
                    raise InputError(f"{path}: damaged at byte {info.offset}: a member lies before its predecessor")
                end = info.offset_data + info.size
                if not info.isdir():
                    yield info.name, _member(path, info)
            # For tarfile a damaged header, or the end of a file cut between two members, is the end
            # of the archive.
            file.seek(tar.offset)
            if file.read(_BLOCK) != bytes(_BLOCK):
                cut = f"damaged, or cut off, at byte {tar.offset}: there is no end-of-archive mark"
                raise InputError(f"{path}: {cut}; copy it again")
    # RecursionError: thousands of extended headers, each of the next header.
    except (tarfile.TarError, OSError, ValueError, EOFError, RecursionError) as error:
        raise InputError(f"{path}: not a whole tar file ({error}); copy it again") from error


class _Headers:
    """A file from which tarfile reads only headers. Their total length is limited, because a header
    may announce a name of any length, and any number of headers may follow each other."""

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


def files(source: Path, params: ShardParams, suffix: str) -> tuple[Path, list[tuple[Path, str]]]:
    """The image root, and each file with its split, ordered by split and name.

    source: the folder of the files; or a file, or files by a range of numbers, that are all train.
    Raises InputError for a pattern without files, a file of two splits, another suffix, a file
    outside of the folder."""
    if RANGE.search(source.name):
        root, patterns = source.parent, {"train": source.name}
    elif remote.is_file(source if core_files.is_remote(source) else existing(source)):
        root, patterns = source.parent, {}
    else:
        root = source
        values = {split: getattr(params, split) for split in ("train", "val", "test")}
        patterns = {split: value for split, value in values.items() if isinstance(value, str)}
    splits = {} if patterns else {source: "train"}
    for split, pattern in patterns.items():
        paths = _matching(root, pattern)
        if not paths:
            raise InputError(f"{core_files.url(root)}: no file matches {split}: '{pattern}'")
        for path in paths:
            if path in splits:
                raise InputError(f"{path}: the patterns of {splits[path]} and {split} both match it")
            splits[path] = split
    for path in splits:
        if path.suffix != suffix:
            raise InputError(f"{path}: expected a file that ends in {suffix}, unpacked: images are read in place")
        locate(root, str(path.relative_to(root)), str(root))
    return root, list(splits.items())


def _matching(root: Path, pattern: str) -> list[Path]:
    """The files that match. Raises InputError for a missing number of a range."""
    if not (numbers := RANGE.search(pattern)):
        return remote.glob(root, pattern)
    before, after = pattern[: numbers.start()], pattern[numbers.end() :]
    existing_paths = set(remote.glob(root, f"{before}*{after}"))  # a single listing, not a request for each number
    paths = [
        root / f"{before}{number:0{len(numbers[1])}d}{after}" for number in range(int(numbers[1]), int(numbers[2]) + 1)
    ]
    for path in paths:
        if path not in existing_paths:
            raise InputError(f"{core_files.url(path)}: does not exist, and '{pattern}' names it")
    return paths
