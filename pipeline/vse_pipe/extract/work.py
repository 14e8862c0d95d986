"""Which shards of an extraction this process computes. Light: a lock is refused before anything heavy is imported."""

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from vse_pipe.core.errors import UsageError
from vse_pipe.core.locks import claim, share
from vse_pipe.project.params.schema import EngineParams


@dataclass(frozen=True)
class Work:
    """share: (i, n), this process computes every n-th shard from the i-th on and assembles nothing; None: all of it."""

    share: tuple[int, int] | None = None
    engine: EngineParams = field(default_factory=EngineParams)

    def lock(self, out: Path) -> AbstractContextManager[None]:
        return claim(out) if self.share is None else share(out, *self.share)

    def mine(self, count: int) -> list[int]:
        """The numbers of the shards, 0 to ``count`` - 1, that are this process's own."""
        if self.share is None:
            return list(range(count))
        part, parts = self.share
        return list(range(part - 1, count, parts))


def work(shard: str | None, engine: EngineParams) -> Work:
    """From the command line. shard: ``i/n`` with i from 1 to n. Raises UsageError."""
    return Work(None if shard is None else _share(shard), engine)


def _share(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {text}: expected i/n with i from 1 to n, for example 1/4, 2/4, 3/4 and 4/4")
    return int(match[1]), int(match[2])
