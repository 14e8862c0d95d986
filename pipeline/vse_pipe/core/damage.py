"""What readers of other libraries raise on damaged bytes, as one line with the file."""

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import PipelineError


@dataclass(frozen=True)
class Damage:
    """How a reader's callers speak of a damaged file: an error of ``kind``, with ``advice`` at the end of its line."""

    kind: type[PipelineError]
    advice: str

    @contextlib.contextmanager
    def named(self, path: Path, what: str) -> Iterator[None]:
        """Around calls of the library and nothing else: damaged bytes make it raise nearly any exception. what: "a .npy file".

        Errors of the system itself, no such file or no more memory, are raised as they are.
        """
        try:
            yield
        except (PipelineError, MemoryError):
            raise
        except Exception as error:
            # EINVAL: a place to seek that the bytes themselves name.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            reason = " ".join((str(error).strip() or type(error).__name__).splitlines()[0].split())
            raise self.kind(f"{path}: {what} ({reason}); {self.advice}") from error
