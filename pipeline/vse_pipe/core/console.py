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
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from rich.cells import cell_len
from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Column, Table

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


# Letters at which a column of names may fold at a narrow terminal.
_FOLDED = 10


def fits(table: "Table") -> bool:
    """Whether the terminal is wide enough for the table without a fold."""
    return _frame(table) + sum(max(map(cell_len, _lines(column))) for column in table.columns) <= stdout.width


def show(table: "Table") -> None:
    """Print a table of texts on stdout. No figure is cut at a narrow terminal: names fold, and columns without room
    follow in a further table that repeats the names. Columns that are not ``no_wrap`` may break between words."""
    if table.title:
        stdout.print(str(table.title), style="table.title")
    for column in table.columns:
        column.header = _printable(str(column.header))
        column._cells = [_printable(str(cell)) for cell in column._cells]
        column.min_width, column.overflow = _least(column), "fold"
    numbers = (place for place, column in enumerate(table.columns) if column.justify == "right")
    first = next(numbers, 1) or 1
    names, figures = table.columns[:first], table.columns[first:]
    while True:
        parts = [_part(table, [*names, *figures[:end]]) for end in range(len(figures) + 1)]
        count = max(1, sum(_least_width(part) <= stdout.width for part in parts) - 1)
        part = parts[min(count, len(figures))]
        if _least_width(part) > stdout.width:  # the terminal folds the lines
            part.width = _least_width(part)
        stdout.print(part, crop=False)
        figures = figures[count:]
        if not figures:
            break
    if table.caption:
        stdout.print(str(table.caption), style="table.caption", highlight=False)


def _part(table: "Table", columns: "list[Column]") -> "Table":
    part = copy.copy(table)
    part.title = part.caption = None
    part.columns = [replace(column, _index=place) for place, column in enumerate(columns)]
    return part


def _least_width(table: "Table") -> int:
    return _frame(table) + sum(column.min_width or 0 for column in table.columns)


def _frame(table: "Table") -> int:
    """The width of everything but the cells."""
    return table._extra_width + sum(map(table._get_padding_width, range(len(table.columns))))


def _lines(column: "Column") -> list[str]:
    return [line for cell in (column.header, *column._cells) for line in str(cell).split("\n")]


def _least(column: "Column") -> int:
    """The least width that cuts no figure."""
    if column.no_wrap:
        return max(map(cell_len, _lines(column)))
    word = max(cell_len(word) for line in _lines(column) for word in (line.split() or [""]))
    return word if column.justify == "right" else min(word, _FOLDED)


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
