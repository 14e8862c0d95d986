"""What earlier calls have read of the pictures of a folder, so that those that have not changed are not read again.

data/seen/ is known to no stage and holds nothing that an output depends on: all of it can be removed.
"""

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from pipeline.core import tables
from pipeline.core.console import warn
from pipeline.core.errors import InputError, IntegrityError
from pipeline.prepare.engine.scan import Read

# Size in bytes, and time of change in nanoseconds.
Stamp = tuple[int, int]
_EVERY_S = 30.0
# All rows are written each time; this many times as long as that took goes to reading in between.
_READING = 20
# A file that is changed again within one tick of its file system's clock has the same time.
_TICK_NS = 2 * 10**9
_SCHEMA = pa.schema(
    [
        tables.field("file", pa.string(), "below the folder"),
        tables.field("size", pa.int64(), "bytes"),
        tables.field("changed", pa.int64(), "nanoseconds since 1970"),
        tables.field("width", pa.int32(), "pixels, upright"),
        tables.field("height", pa.int32(), "pixels, upright"),
        tables.field("orientation", pa.int32(), "of EXIF, 1 to 8"),
        tables.field("sha256", pa.string(), "of the file"),
    ],
    metadata={"artefact": "seen", "version": "1"},
)


@dataclass
class SeenPictures:
    """path: of the file; its content, by name: what a picture's stamp was when it was read, and the result. Only of pictures that
    can be used: others are cheap, and what they lack may be there the next time."""

    path: Path
    _known: dict[str, tuple[Stamp, Read]] = field(default_factory=dict)
    _changed: bool = False
    _written: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    @classmethod
    @contextlib.contextmanager
    def kept(cls, path: Path) -> Iterator["SeenPictures"]:
        """Read, and written again from time to time and at the end, be it an interruption. A damaged file is one warning and
        counts as none."""
        seen = cls(path)
        if path.is_file():
            try:
                seen._known = _read(path)
            except (InputError, IntegrityError) as error:
                warn(f"{error}; all pictures are read again")
        try:
            yield seen
        finally:
            seen._write()

    def get(self, file: str, stamp: Stamp) -> Read | None:
        was, read = self._known.get(file, (None, None))
        return read if was == stamp else None

    def forget(self, others: Collection[str]) -> None:
        """All but these."""
        gone = self._known.keys() - set(others)
        for file in gone:
            del self._known[file]
        self._changed |= bool(gone)

    def add(self, file: str, stamp: Stamp, read: Read) -> None:
        if read[3] is not None or stamp[1] > time.time_ns() - _TICK_NS:
            return
        self._known[file], self._changed = (stamp, read), True
        if time.monotonic() - self._written > max(_EVERY_S, _READING * self._took):
            self._write()

    def _write(self) -> None:
        started = time.monotonic()
        if self._changed:
            rows = [(file, *stamp, *read[0], read[1], read[2]) for file, (stamp, read) in self._known.items()]
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(_SCHEMA)
            tables.write(self.path, pa.table([list(one) for one in columns], schema=_SCHEMA), _SCHEMA, {})
        self._changed, self._written = False, time.monotonic()
        self._took = self._written - started


def _read(path: Path) -> dict[str, tuple[Stamp, Read]]:
    table = tables.read(path, _SCHEMA)
    files, *columns = (table[name].to_pylist() for name in _SCHEMA.names)
    return {
        file: ((size, changed), ((width, height), turned, digest, None))
        for file, size, changed, width, height, turned, digest in zip(files, *columns, strict=True)
    }
