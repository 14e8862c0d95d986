"""Every error the pipeline raises on purpose, the exit status each one ends the command with, and the
command that makes what is missing."""

import contextlib
import difflib
import errno
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path


class PipelineError(Exception):
    """The run failed; each argument is a line. exit_status: of the command."""

    exit_status = 1

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class DeadRun(PipelineError):
    """A training stands at chance and no gradient is left to move it."""


class UsageError(PipelineError):
    """The command line or params.yaml asks for something that does not exist."""

    exit_status = 2


class ParamsError(UsageError):
    """params.yaml does not validate. Each argument is a problem, address first."""


class UnknownMember(UsageError, ValueError):
    """A family has no member of that name; pydantic takes it for an error of the value."""


class InputError(PipelineError):
    """A data set or an artefact cannot be used as it is."""

    exit_status = 3


class UnreadableImage(InputError):
    """An image cannot be read. ``reason``: why: "does not exist", "is empty (0 bytes)"."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} {reason}" if name else reason)
        self.name, self.reason = name, reason

    def __reduce__(self) -> tuple:  # it may come from another process
        return type(self), (self.name, self.reason)


class MissingResource(PipelineError):
    """A file that this command cannot make by itself is not there."""

    exit_status = 4


class IntegrityError(PipelineError):
    """A file's content is not what its digest or checksum promises."""

    exit_status = 5


class LockedError(PipelineError):
    """Another process is writing the same output; try again when it has ended."""

    exit_status = 75


DATA = Path("data")
_ROOMS = ("prepare", "extract", "inject", "train", "embed", "evaluate", "audit", "localize")


def command_of(place: Path) -> str | None:
    """The command that makes the output that ``place`` is or lies in; None elsewhere."""
    parts = place.parts
    starts = [start for start, pair in enumerate(pairwise(parts)) if pair[0] == DATA.name and pair[1] in _ROOMS]
    if not starts or len(parts) < starts[-1] + 3:
        return None
    room, name, *more = (part.removesuffix(".partial") for part in parts[starts[-1] + 1 :])
    if room == "prepare":
        return f"vse-pipe prepare --dataset {name}"
    if room == "extract":
        folder = Path(*parts[: starts[-1] + 4])
        if not folder.is_dir():
            return "vse-pipe extract"
        kind = "texts" if (folder / "vocabulary.json").is_file() else "features"
        return f"vse-pipe extract --{kind} {more[0]}"
    if room == "inject":
        is_taught = Path(*parts[: starts[-1] + 4], "teachers.json").is_file()
        return f"vse-pipe inject --{'teacher' if is_taught else 'noise'} {more[0]}"
    if (room, name) == ("audit", "datasets"):
        return f"vse-pipe audit --dataset {more[0]}" + ("" if more[1] == "prepared" else f" --noise {more[1]}")
    return f"vse-pipe {room} --run {f'{name}/{more[0]}' if more and more[0].isdecimal() else name}"


_NO_MEMORY = ("DefaultCPUAllocator", "std::bad_alloc")


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch's allocator on the CPU raises a plain RuntimeError."""
    is_named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch is not imported
    return is_named or (isinstance(error, RuntimeError) and any(sign in str(error) for sign in _NO_MEMORY))


@contextlib.contextmanager
def damaged(path: Path, description: str, kind: type[PipelineError] = IntegrityError) -> Iterator[None]:
    """Turns an exception of a library, which may be any for damaged bytes, into one of ``kind`` that
    names the file and the command that makes it anew. Errors of the system pass unchanged.
    description: "a damaged .npy file"."""
    try:
        yield
    except (PipelineError, MemoryError):
        raise
    except Exception as error:
        # EINVAL: the bytes name a position that cannot be sought.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        advice = f"; run `{command}` again" if (command := command_of(path)) else ""
        raise kind(f"{path}: {description} ({first_line(error)}){advice}") from error


def first_line(error: BaseException) -> str:
    """The first line of the message with text, or the name of the class."""
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """``unknown loss 'maxx'; did you mean 'max'? known: hal, max, sum``."""
    return missing(f"unknown {kind} '{name}'", name, sorted(names))


def missing(problem: str, name: str, names: Iterable[str], advice: str | None = None) -> str:
    """``<problem>; did you mean 'max'? known: hal, max, sum``, with ``names`` in their order.
    advice: replaces the list."""
    listed = list(names)
    close = difflib.get_close_matches(name, listed, n=1)
    guess = f" did you mean '{close[0]}'?" if close else ""
    return f"{problem};{guess} {advice or 'known: ' + ', '.join(listed)}"


def missing_package(feature: str, package: str) -> MissingResource:
    """The error for a missing package. feature: the option that needs it: ``--to faiss``."""
    return MissingResource(f"{feature} needs the package {package}, which is not installed: pip install {package}")
