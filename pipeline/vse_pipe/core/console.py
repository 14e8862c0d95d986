"""Output of commands: results on stdout, log lines on stderr, and progress as a bar at a terminal or as plain lines."""

import contextlib
import io
import json
import os
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

Item = TypeVar("Item")
_PLAIN_EVERY_S = 15.0
_PLAIN_EVERY_S_VERBOSE = 2.0
QUIET, NORMAL, VERBOSE = 0, 1, 2

stdout = Console()
stderr = Console(stderr=True, highlight=False, soft_wrap=True)
_level = NORMAL
_started = time.monotonic()


def set_level(level: int) -> None:
    """QUIET: only warnings and errors; VERBOSE: more progress lines, the resources of a call, tracebacks."""
    global _level
    _level = level
    if level == QUIET or not watched():
        os.environ.setdefault("TQDM_DISABLE", "1")  # bars of other libraries; tqdm reads it at import


def level() -> int:
    return _level


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without progress inside, for calls from Python."""
    global _level
    before, _level = _level, QUIET
    try:
        yield
    finally:
        _level = before


def silence() -> None:
    """No output at all, for processes that repeat the work of another one."""
    stderr.quiet = stdout.quiet = True
    set_level(QUIET)


def tolerate_any_terminal() -> None:
    """Print characters outside of the terminal's encoding as escapes; a caption must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower()
        if hasattr(stream, "reconfigure") and not encoding.startswith("utf"):
            stream.reconfigure(errors="backslashreplace")


class _Unheard(io.FileIO):
    """Drops output when its reader has ended."""

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            return len(content)


def outlive_readers() -> None:
    """After ``| head`` the command goes on and ends with its own exit status."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        buffer = getattr(stream, "buffer", None)
        if isinstance(getattr(buffer, "raw", buffer), io.FileIO):  # no raw one under PYTHONUNBUFFERED
            heard = io.BufferedWriter(_Unheard(stream.fileno(), "wb", closefd=False))
            setattr(sys, name, io.TextIOWrapper(heard, stream.encoding, stream.errors, line_buffering=True))


def plain(text: str) -> str:
    """The text on one line without control characters; line breaks and tabs become a space, other spaces stay."""
    return "".join(map(_printed, text.replace("\r\n", "\n")))


def _printed(letter: str) -> str:
    if letter.isprintable() or unicodedata.category(letter) == "Zs":
        return letter
    return " " if letter.isspace() else "\ufffd"


def _printable(message: str) -> str:
    return "\n".join(map(plain, message.split("\n")))


def say(message: str) -> None:
    """One log line on stderr, so that stdout stays free for results."""
    if _level != QUIET:
        stderr.print(_printable(message), markup=False)


def detail(message: str) -> None:
    """A log line under --verbose."""
    if _level == VERBOSE:
        stderr.print(_printable(message), markup=False)


def spent() -> None:
    """Under --verbose, the time and memory of the process."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = time.monotonic() - _started
    detail(
        f"{seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of processor time, {used.ru_maxrss / 1024:.0f} MB at most"
    )


def trace() -> None:
    """Under --verbose, the traceback of the current error on stderr."""
    if _level == VERBOSE:
        import traceback

        sys.stderr.write(traceback.format_exc())


def warn(message: str) -> None:
    stderr.print(f"warning: {_printable(message)}", markup=False, style="yellow")


def line(text: str) -> None:
    """One line on stdout, never wrapped."""
    stdout.print(_printable(text), markup=False, highlight=False, soft_wrap=True)


def document(content: object) -> None:
    """A JSON document on stdout with sorted keys. Raises ValueError for NaN and infinities."""
    stdout.file.write(json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n")


def ruled(**options: Any) -> "Table":
    """An empty table with a rule below its head. options: of rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, **options)


def watched() -> bool:
    """Whether stderr is a terminal that can redraw a line. Not under DVC, in a pipe or in CI."""
    unwatched = {"DVC_STAGE", "CI"} & set(os.environ)
    return sys.stderr.isatty() and not stderr.is_dumb_terminal and not unwatched


def track(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    """The items, with a bar at a terminal, else with a plain line every 15 seconds and one at the end of long work;
    silent under --quiet."""
    if _level == QUIET:
        yield from items
    elif watched():
        yield from _bar(items, total, title)
    else:
        yield from _lines(items, total, title)


def _lines(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    started = last = time.monotonic()
    interval = _PLAIN_EVERY_S_VERBOSE if _level == VERBOSE else _PLAIN_EVERY_S
    done, has_printed = 0, False
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= interval and done < total:
            left = (now - started) / done * (total - done)
            say(f"{title}: {done}/{total}, {done / (now - started):.1f}/s, {left:.0f} s left")
            last, has_printed = now, True
    spent = time.monotonic() - started
    if has_printed or spent >= interval:
        say(f"{title}: {done}/{total}, {done / max(spent, 1e-9):.1f}/s, done in {spent:.0f} s")


def _bar(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]}")
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True) as progress:
        task = progress.add_task(title, total=total, rate="")
        started = time.monotonic()
        for done, item in enumerate(items, start=1):
            yield item
            progress.update(task, completed=done, rate=f"{done / max(time.monotonic() - started, 1e-9):.1f}/s")
