"""What people see while a command runs: log lines on stderr, a live bar when somebody watches, plain lines otherwise."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich.console import Console

Item = TypeVar("Item")
_PLAIN_EVERY_S = 15.0

stdout = Console()
stderr = Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """One log line on stderr, so that stdout stays free for results."""
    stderr.print(message, markup=False)


def warn(message: str) -> None:
    stderr.print(f"warning: {message}", markup=False, style="yellow")


def watched() -> bool:
    """Does a person look? Not under DVC, in a pipe or in CI."""
    return sys.stderr.isatty() and "DVC_STAGE" not in os.environ and "CI" not in os.environ


def track(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """Pass ``items`` through: a bar with rate and time left on a terminal, else a plain line every 15 seconds."""
    if watched():
        yield from _bar(items, total, what)
        return
    started = last = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last >= _PLAIN_EVERY_S:
            left = (now - started) / done * (total - done)
            say(f"{what}: {done}/{total}, {done / (now - started):.1f}/s, {left:.0f} s left")
            last = now


def _bar(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]}")
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        rate,
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=stderr, transient=True) as progress:
        task = progress.add_task(what, total=total, rate="")
        started = time.monotonic()
        for done, item in enumerate(items, start=1):
            yield item
            progress.update(
                task, completed=done, rate=f"{done / max(time.monotonic() - started, 1e-9):.1f}/s"
            )
