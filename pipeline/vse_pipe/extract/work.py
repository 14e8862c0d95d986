"""The shards that this process computes. Light: a lock is refused before heavy imports."""

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from vse_pipe.core.errors import UsageError
from vse_pipe.core.locks import claim, share
from vse_pipe.project.params.nodes import EngineParams


@dataclass(frozen=True)
class Work:
    """share: (i, n) computes every n-th shard from the i-th on, and assembles nothing."""

    share: tuple[int, int] | None = None
    engine: EngineParams = field(default_factory=EngineParams)

    def lock(self, out: Path) -> AbstractContextManager[None]:
        return claim(out) if self.share is None else share(out, *self.share)


def work(shard: str | None, engine: EngineParams) -> Work:
    """The work of the command line. shard: ``i/n``, i from 1 to n. Raises UsageError."""
    if shard is None:
        return Work(engine=engine)
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", shard)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--shard {shard}: expected i/n with i from 1 to n, for example 1/4, 2/4, 3/4 and 4/4")
    return Work((int(match[1]), int(match[2])), engine)
