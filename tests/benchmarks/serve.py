"""``python -m tests.benchmarks.serve``: how soon ``vse-pipe serve`` answers while others press on it.

The engine is a stand-in whose every search takes ``--seconds``; server, queue and pages are the real ones. Three rounds: searches
in turn with nobody else there; the same beside ``--slow`` clients, a third of which say nothing, a third send a header line
every half second and a third a byte of a photo, and come again when they are closed; ``--crowd`` searches at the same instant.
"""

import argparse
import asyncio
import collections
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.tools.serve.running import served
from tests.toy_project import write_params

_SEARCH = "GET /api/search?text=blue&k=1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
_HEADERS = "GET / HTTP/1.1\r\nHost: {host}\r\n"
_PHOTO = (
    "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n"
    '--b\r\nContent-Disposition: form-data; name="photo"; filename="x"\r\n\r\n'
)
# What a slow client says first, and then again and again.
SLOW = [("", ""), (_HEADERS, "X: y\r\n"), (_PHOTO, "x")]


@dataclass(frozen=True)
class Answer:
    """status: of HTTP, or the name of what went wrong with the connection; retry: the header Retry-After."""

    status: str
    seconds: float
    retry: str | None = None


async def ask(host: str, port: int, patience: float = 60.0) -> Answer:
    """One search on a connection of its own."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(_SEARCH.format(host=host).encode())
            head, _, _ = (await reader.read()).decode().partition("\r\n\r\n")
            writer.close()
    except (OSError, TimeoutError) as error:
        return Answer(type(error).__name__, time.monotonic() - started)
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = first.split()[1] if head else "closed without an answer"
    return Answer(status, time.monotonic() - started, headers.get("retry-after"))


@contextlib.asynccontextmanager
async def pressed(host: str, port: int, clients: int) -> AsyncIterator[None]:
    """``clients`` slow ones while the block runs, all of them connected once before."""
    connected = [asyncio.Event() for _ in range(clients)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_dawdle(host, port, number, one)) for number, one in enumerate(connected)]
        for one in connected:
            await one.wait()
        yield
        for task in tasks:
            task.cancel()


async def _dawdle(host: str, port: int, number: int, connected: asyncio.Event) -> None:
    first, again = (text.format(host=host).encode() for text in SLOW[number % len(SLOW)])
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port)
            connected.set()
            with contextlib.closing(writer):
                writer.write(first)
                while not reader.at_eof():
                    await asyncio.sleep(0.5)
                    writer.write(again)
                    await writer.drain()
        await asyncio.sleep(0.5)


async def in_turn(host: str, port: int, searches: int) -> list[Answer]:
    """Ten a second, as long as they are answered in time; one that has waited for five seconds is given up."""
    answers = []
    for _ in range(searches):
        answers.append(await ask(host, port, patience=5.0))
        await asyncio.sleep(max(0.0, 0.1 - answers[-1].seconds))
    return answers


async def at_once(host: str, port: int, crowd: int) -> list[Answer]:
    return await asyncio.gather(*(ask(host, port) for _ in range(crowd)))


def told(answers: list[Answer]) -> str:
    counts = collections.Counter(
        one.status + (f" with Retry-After {one.retry}" if one.retry else "") for one in answers
    )
    spent = sorted(one.seconds for one in answers)
    last = spent[min(len(spent) - 1, int(0.95 * len(spent)))]
    listed = ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))
    return f"{listed}; median {statistics.median(spent):.3f} s, 95% {last:.3f} s, longest {spent[-1]:.3f} s"


async def _measure(host: str, port: int, options: argparse.Namespace) -> None:
    sys.stdout.write(f"nobody else: {told(await in_turn(host, port, options.searches))}\n")
    async with pressed(host, port, options.slow):
        sys.stdout.write(f"{options.slow} slow clients: {told(await in_turn(host, port, options.searches))}\n")
    sys.stdout.write(f"{options.crowd} at once: {told(await at_once(host, port, options.crowd))}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--crowd", type=int, default=500)
    parser.add_argument("--searches", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.02, help="of a search")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_params(Path(folder))
        with served(Path(folder), "--run", "sum", seconds=options.seconds) as (url, _):
            place = urlsplit(url)
            asyncio.run(_measure(place.hostname, place.port, options))


if __name__ == "__main__":
    main()
