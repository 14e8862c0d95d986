"""Files from outside of the pipeline that its stages read, and data/sources/ and data/code/, which
list them and the modules of each stage for DVC.

A listing follows from names and content, so that a copy or a touch changes nothing. Content is read
again only where size, time of change or time of the file system's entry differ from those in
data/seen/.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core import remote
from vse_pipe.core.console import plain, warn
from vse_pipe.core.errors import PipelineError
from vse_pipe.core.files import is_remote, read_json, sha256, url, walk, whole_folder, write_text
from vse_pipe.core.locks import claim
from vse_pipe.core.strict import WEIGHT_FILES
from vse_pipe.project import paths

HEAD = "files from outside of the pipeline: sha256 of names and content, number of files, place\n"
ABSENT = "absent"
EVERYTHING = ("",)
# Size in bytes; in nanoseconds the time of change, and that of the file system's entry, which no
# copy can set.
Stamp = list[int]
_NO_STAMP: Stamp = [-1, -1, -1]


@dataclass(frozen=True)
class SourceFiles:
    """Files that a stage reads together: ``path``, or files in the folder ``path``.

    Files in a folder either match one of ``patterns`` (of ``Path.glob``); or lie anywhere below it
    and their names in lower case have one of ``endings``, without hidden files.
    """

    path: Path
    patterns: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Their name in a listing."""
        return plain(url(self.path)) + (f"/{','.join(self.patterns)}" if self.patterns else "")


def weights_file(weights: str) -> list[SourceFiles]:
    """The file of ``strict.WeightsName``; none for published or random weights."""
    return [SourceFiles(Path(weights).expanduser())] if weights.endswith(WEIGHT_FILES) else []


def listing(groups: Iterable[SourceFiles], previous: str) -> str:
    """The text of data/sources/<stage>/<entry>.

    previous: the earlier text, whose line is repeated where this machine has none of the files, as
    in a clone without raw data.
    """
    earlier = {line.split(" ", 2)[2]: line for line in previous.splitlines()[1:] if line.count(" ") > 1}
    return HEAD + "".join(f"{line}\n" for line in [_line(group, earlier) for group in dict.fromkeys(groups)])


def content(group: SourceFiles) -> dict[str, str]:
    """{name below ``group.path``: sha256, ``ABSENT`` or a server's mark of a remote file}."""
    if is_remote(group.path):
        names = _names(group) if group.patterns or remote.is_file(group.path) else []
        return {name: remote.version(group.path / name) for name in names}
    key = hashlib.sha256(repr(group).encode()).hexdigest()[:16]
    path = paths.SEEN / f"{key}.json"
    before = read_json(path) if path.is_file() else {}
    stamps = {name: _stamp(f"{group.path}/{name}" if name else str(group.path)) for name in _names(group)}
    unread = [name for name, stamp in stamps.items() if before.get(name, [])[:3] != stamp]
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        digests = dict(zip(unread, pool.map(lambda name: _digest(group.path / name), unread), strict=True))
    now: dict[str, list] = {name: [*stamp, digests.get(name) or before[name][3]] for name, stamp in stamps.items()}
    if now != before:
        write_text(path, json.dumps(now))
    return {name: entry[3] for name, entry in now.items()}


def _line(group: SourceFiles, earlier: dict[str, str]) -> str:
    place = group.place
    try:
        digests, lack = content(group), f"{place} is not on this machine"
    except PipelineError as error:
        if not is_remote(group.path) or place not in earlier:
            raise
        digests, lack = {}, str(error)
    if all(digest == ABSENT for digest in digests.values()):
        if place in earlier and not earlier[place].startswith(ABSENT):
            warn(f"sources: {lack}; it is taken as it was when it was read last")
            return earlier[place]
        return f"{ABSENT} 0 {place}"
    text = "".join(f"{digest} {name}\0" for name, digest in sorted(digests.items()))
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
    return f"{digest} {len(digests)} {place}"


def _names(group: SourceFiles) -> list[str]:
    if group.patterns and not remote.is_file(group.path):
        matching = [path for pattern in group.patterns for path in remote.glob(group.path, pattern)]
        return [path.relative_to(group.path).as_posix() for path in dict.fromkeys(matching)]
    if not group.endings or not group.path.is_dir():
        return [""]
    return [name for name, _ in walk(group.path) if name.lower().endswith(group.endings)]


def _digest(path: Path) -> str:
    try:
        return sha256(path)
    except OSError:
        return ABSENT


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 (a third of the time of a Path)
    except OSError:
        return _NO_STAMP
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def write_code(lists: dict[str, str]) -> None:
    """Write ``paths.CODE``. lists: by stage, as of ``vse_pipe.project.code.listings``."""
    _write(paths.CODE, {stage: f"{text}\n" for stage, text in lists.items()})


def write_sources(files: dict[str, list[SourceFiles]]) -> None:
    """Write ``paths.SOURCES``. files: by stage, as of ``vse_pipe.project.stages.sources``."""
    before = _texts(paths.SOURCES)
    _write(paths.SOURCES, {stage: listing(groups, before.get(stage, "")) for stage, groups in files.items()})


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Whole or not at all, if out of date. texts: by stage, ``train@max``."""
    with claim(folder):
        if texts == _texts(folder):
            return
        with whole_folder(folder) as building:
            for stage, text in texts.items():
                file = building / stage.replace("@", "/")
                file.parent.mkdir(exist_ok=True)
                file.write_text(text, encoding="utf-8", errors="surrogateescape")


def _texts(folder: Path) -> dict[str, str]:
    files = {"@".join(path.relative_to(folder).parts): path for path in folder.rglob("*") if path.is_file()}
    return {stage: path.read_text(encoding="utf-8", errors="surrogateescape") for stage, path in files.items()}
