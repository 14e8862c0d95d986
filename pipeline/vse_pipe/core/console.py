"""Output of commands: results on stdout, log lines on stderr, and progress as a bar at a terminal or as plain lines."""

import contextlib
import copy
import io
import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

if TYPE_CHECKING:
    from rich.measure import Measurement
    from rich.table import Table

Item = TypeVar("Item")
_PLAIN_EVERY_S = 15.0
_PLAIN_EVERY_S_VERBOSE = 2.0
QUIET, NORMAL, VERBOSE = 0, 1, 2

# No name or caption is markup or an emoji code.
stdout = Console(markup=False, emoji=False)
stderr = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
for _console in (stdout, stderr):
    _console._width = _console._width or None  # COLUMNS=0 means an unknown width
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


class _Stream(io.FileIO):
    """Drops output that cannot be written. lost: the error, unless only the reader has ended."""

    lost: OSError | None = None

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.lost = error
            return len(content)


def outlive_readers() -> None:
    """After ``| head``, or where a stream is closed or full, the command goes on. ``lost_output`` says what was lost."""
    for number in range(3):  # a file that took the number of a closed stream would get its output
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        buffer = getattr(stream, "buffer", None)
        if stream is None or isinstance(getattr(buffer, "raw", buffer), io.FileIO):  # no raw one under PYTHONUNBUFFERED
            raw = _Stream(stream.fileno() if stream else number, "wb", closefd=False)
            encoding, errors = (stream.encoding, stream.errors) if stream else ("utf-8", "backslashreplace")
            setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=True))


def lost_output() -> OSError | None:
    """Why results on stdout were lost; None where none were."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.lost if isinstance(raw, _Stream) else None


# Sequences that move the cursor, colour the text or name the window.
_TERMINAL_CODES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?")
# Persian, Hindi and emoji have joiners, and flags of countries are named by tags. No other control character prints.
JOINERS = "[\u200c\u200d\U000e0020-\U000e007f]"


def plain(text: str) -> str:
    """The text on one line without terminal codes and control characters; line breaks and tabs become a space, other
    spaces stay."""
    return "".join(map(_printed, _TERMINAL_CODES.sub("", text.replace("\r\n", "\n"))))


def _printed(letter: str) -> str:
    if letter.isprintable() or unicodedata.category(letter) == "Zs" or re.match(JOINERS, letter):
        return letter
    return " " if letter.isspace() else "\ufffd"


def shown(name: str) -> str:
    """The name for a message: as it is, or with escapes where it would not print on one line."""
    return name if plain(name) == name else ascii(name)


def _printable(message: str) -> str:
    return "\n".join(map(plain, message.split("\n")))


def say(message: str) -> None:
    """One log line on stderr, so that stdout stays free for results."""
    if _level != QUIET:
        stderr.print(_printable(message))


def detail(message: str) -> None:
    """A log line under --verbose."""
    if _level == VERBOSE:
        stderr.print(_printable(message))


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
    stderr.print(f"warning: {_printable(message)}", style="yellow")


def line(text: str) -> None:
    """One line on stdout, never wrapped."""
    stdout.print(_printable(text), highlight=False, soft_wrap=True)


def document(content: object) -> None:
    """A JSON document on stdout with sorted keys. Raises ValueError for NaN and infinities."""
    stdout.file.write(json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n")


def ruled(**options: Any) -> "Table":
    """An empty table with a rule below its head. options: of rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, **options)


_WIDEST = 10**6


def show(table: "Table") -> None:
    """Print a table of texts on stdout. Names and sentences fold between words at a narrow terminal; figures never do,
    so lines may be longer than the terminal is wide."""
    if table.title:
        stdout.print(str(table.title), style="table.title")
    for column in table.columns:
        column.header = _printable(str(column.header))
        column._cells = [_printable(str(cell)) for cell in column._cells]
        column.overflow = "fold"
        if column.no_wrap or column.justify == "right":
            column.no_wrap, column.min_width = True, _measured(column.header, *column._cells).maximum
    part = copy.copy(table)
    part.title = part.caption = None
    measured = _measured(part)
    part.width = max(measured.minimum, min(measured.maximum, stdout.width))
    stdout.print(part, crop=False)
    if table.caption:
        stdout.print(str(table.caption), style="table.caption", highlight=False)


def _measured(*content: Any) -> "Measurement":
    """The least and the natural width."""
    from rich.measure import measure_renderables

    return measure_renderables(stdout, stdout.options.update(width=_WIDEST), content)


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
        yield from _plain_lines(items, total, title)


def _plain_lines(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
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
