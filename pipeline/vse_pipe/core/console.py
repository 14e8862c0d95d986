"""Output of commands: results on stdout, log lines on stderr, and progress."""

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from vse_pipe.core.errors import PipelineError

if TYPE_CHECKING:
    from rich.table import Table

Item = TypeVar("Item")
_PLAIN_EVERY_S = 15.0
QUIET, NORMAL, VERBOSE = 0, 1, 2

# No name or caption is markup or an emoji code.
stdout = Console(markup=False, emoji=False)
stderr = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
_level = NORMAL
_title = ""


def set_level(level: int) -> None:
    """QUIET: only warnings and errors; VERBOSE: the traceback of an error too."""
    global _level
    _level = level
    if not watched():
        os.environ.setdefault("TQDM_DISABLE", "1")  # bars of other libraries; tqdm reads it at import


def level() -> int:
    return _level


@contextlib.contextmanager
def titled(title: str) -> Iterator[None]:
    """Log lines and errors inside begin with ``title: ``."""
    global _title
    before, _title = _title, f"{_title}{title}: "
    try:
        yield
    except PipelineError as error:
        # A process that did the work may have put the title before its error.
        error.args = (f"{title}: {str(error).removeprefix(f'{title}: ')}",)
        raise
    finally:
        _title = before


def silence() -> None:
    """No output at all, for processes that repeat the work of another one."""
    stderr.quiet = stdout.quiet = True
    set_level(QUIET)


# Persian, Hindi and emoji have joiners, and flags of countries are named by tags. No other control
# character prints.
JOINERS = "[\u200c\u200d\U000e0020-\U000e007f]"


def plain(text: str) -> str:
    """The text on one line; spaces of all kinds become a space, control characters a mark."""
    keeps = re.compile(JOINERS).match
    marks = (" " if letter.isspace() else "\ufffd" for letter in text)
    return "".join(
        letter if letter.isprintable() or keeps(letter) else mark for letter, mark in zip(text, marks, strict=True)
    )


def _printable(message: str) -> str:
    return "\n".join(map(plain, message.split("\n")))


def say(message: str) -> None:
    """One log line on stderr, so that stdout stays free for results."""
    if _level != QUIET:
        stderr.print(_printable(_title + message))


def warn(message: str) -> None:
    stderr.print(f"warning: {_printable(_title + message)}", style="yellow")


def line(text: str) -> None:
    """One line on stdout, never wrapped."""
    stdout.print(_printable(text), highlight=False, soft_wrap=True)


def document(content: object) -> None:
    """A JSON document on stdout with sorted keys. Raises ValueError for NaN and infinities."""
    print(json.dumps(content, indent=2, sort_keys=True, allow_nan=False), file=stdout.file, flush=True)


def ruled(**options: Any) -> "Table":
    """An empty table with a rule below its head. options: of rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, **options)


def show(table: "Table") -> None:
    """Print a table of texts on stdout. Names and sentences fold between words at a narrow
    terminal; columns with ``no_wrap`` never do, so lines may be longer than the terminal is wide."""
    from rich.cells import cell_len
    from rich.measure import Measurement

    caption, table.caption = table.caption, None
    for column in table.columns:
        texts = [_printable(str(cell)) for cell in (column.header, *column._cells)]
        column.header, column._cells[:] = texts[0], texts[1:]
        column.overflow = "fold"
        if column.no_wrap:
            column.min_width = max(map(cell_len, "\n".join(texts).split("\n")))
    width = Measurement.get(stdout, stdout.options.update(width=10**6), table)
    table.width = max(width.minimum, min(width.maximum, stdout.width))
    stdout.print(table, crop=False)
    if caption:
        stdout.print(str(caption), style="table.caption", highlight=False)


def watched() -> bool:
    """Whether stderr is a terminal that can redraw a line. Not under --quiet, DVC, in a pipe or CI."""
    unwatched = _level == QUIET or {"DVC_STAGE", "CI"} & set(os.environ)
    return sys.stderr.isatty() and not stderr.is_dumb_terminal and not unwatched


def track(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    """The items, with a bar at a terminal, else with a plain line every 15 seconds and one at the
    end of long work; silent under --quiet."""
    if _level == QUIET:
        yield from items
    elif watched():
        from rich.markup import escape
        from rich.progress import track as bar

        yield from bar(items, escape(_title + title), total, console=stderr, transient=True)
    else:
        yield from _plain_lines(items, total, title)


def _plain_lines(items: Iterable[Item], total: int, title: str) -> Iterator[Item]:
    started = last = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - (started if done == total else last) >= _PLAIN_EVERY_S:
            rate, last = done / (now - started), now
            say(f"{title}: {done}/{total}, {rate:.1f}/s, {(total - done) / rate:.0f} s left")
