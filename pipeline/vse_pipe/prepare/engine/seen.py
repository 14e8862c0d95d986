"""What earlier calls have read of the pictures of a folder, so that those that have not changed are not read again."""

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vse_pipe.artifacts import images
from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.prepare.engine.scan import Read

# Size in bytes, and in nanoseconds the time of change and that of the file system's entry.
Stamp = tuple[int, int, int]
_EVERY_S = 30.0
# All rows are written each time; this many times as long as that took goes to reading in between.
_READING = 20
# A file that is changed again within one tick of its file system's clock has the same time.
_TICK_NS = 2 * 10**9


@dataclass
class SeenPictures:
    """folder: of the file; its content, by name: what a picture's stamp was when it was read, and the result. Only of pictures that
    can be used: others are cheap, and what they lack may be there the next time."""

    folder: Path
    _known: dict[str, tuple[Stamp, Read]] = field(default_factory=dict)
    _changed: bool = False
    _written: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    @classmethod
    @contextlib.contextmanager
    def kept(cls, folder: Path) -> Iterator["SeenPictures"]:
        """Read, and written again from time to time and at the end, be it an interruption. A damaged file is one warning and
        counts as none."""
        found = cls(folder)
        if (folder / images.SEEN).is_file():
            try:
                found._known = _read(folder)
            except (InputError, IntegrityError) as error:
                warn(f"{error}; all pictures are read again")
        try:
            yield found
        finally:
            found._write()

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
            images.write_seen(
                self.folder, ((file, *stamp, *read[0], *read[1:3]) for file, (stamp, read) in self._known.items())
            )
        self._changed, self._written = False, time.monotonic()
        self._took = self._written - started


def _read(folder: Path) -> dict[str, tuple[Stamp, Read]]:
    return {
        file: ((size, changed, entry), ((width, height), turned, digest, None))
        for file, size, changed, entry, width, height, turned, digest in images.read_seen(folder)
    }
