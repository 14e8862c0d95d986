"""``python -m benchmarks.search NAME``: ``vse-pipe search``, ``serve`` and ``index``."""

import argparse
import asyncio
import collections
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from benchmarks.measure import benchmark, call, run, show
from benchmarks.scale import planted
from tests.search.serve.standin import served
from tests.toy_project import write_params
from vse_pipe.artifacts import captions, embeddings, images, model_files, texts
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.text import SPECIAL
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.registry import RUN_FAMILIES
from vse_pipe.train.model import build, describe

QUERY = "two dogs running on grass"
WORDS = 10_000


@benchmark(
    items=30_000, captions=0, dim=1024, topics=1000, repeats=5, inference=["nns", "csls"], set=[], device="cpu",
    warm=False, at="",
)  # fmt: skip
def answers(options: argparse.Namespace) -> None:
    """Seconds of the first answer of ``vse-pipe search``, start-up included.

    Writes a project of planted vectors below a temporary folder or one --at that stays: images around --topics
    centres, --captions in all beside them, and a GRU of 10,000 words. Then it calls the command line in new processes
    for each criterion with --set of parameters; the first call, which unpacks vectors and computes corrections, is
    printed by itself. Seconds of the clock, of the processors, and the largest memory. --warm also asks an engine that
    is open, as ``vse-pipe serve`` does.
    """
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(options.at or temporary)
        if not (root / paths.embedded("sum") / embeddings.CAPTIONS).is_file():
            root.mkdir(parents=True, exist_ok=True)
            _write_project(root, options.items, options.captions or options.items, options.dim, options.topics)
        for inference in options.inference:
            command = [word for value in options.set for word in ("-S", value)]
            command += ["search", QUERY, "--run", "sum", "--json", "--inference", inference]
            command += ["--device", str(options.device)]
            first = call(root, *command)
            calls = [call(root, *command) for _ in range(options.repeats)]
            clock, processors = (_spread([getattr(used, name) for used in calls]) for name in ("first", "processors"))
            vectors = 4 * options.dim * options.items / 2**20
            show(f"{inference}: {clock}; on the processors {processors}")
            show(f"  memory {max(used.mib for used in calls):.0f} MiB, of vectors {vectors:.0f} MiB")
            show(f"  first call {first.first:.2f} s, {first.processors:.2f} s on the processors, {first.mib:.0f} MiB")
            if correction := json.loads(first.output)["correction"]:
                show(f"  its correction {correction['seconds']:.2f} s")
            if options.warm:
                show(f"  warm: {_spread(_warm(root, inference, options))}")


def _spread(times: list[float]) -> str:
    return f"{statistics.median(times):.3f} s, the median of {len(times)} ({min(times):.3f} to {max(times):.3f})"


def _warm(root: Path, inference: str, options: argparse.Namespace) -> list[float]:
    """Seconds of each answer of an engine that has answered before."""
    from vse_pipe.search.engine import Engine

    with contextlib.chdir(root):
        params = load(Path("params.yaml"), options.set)
        engine = Engine.open(params, "sum", inference, device=str(options.device))
        return [engine.by_text(QUERY).seconds for _ in range(10 * options.repeats + 1)][1:]


def _write_project(root: Path, items: int, described: int, dim: int, topics: int) -> None:
    """All that a search reads: data set, text features, model and embeddings. described: captions in all."""
    params = load(write_params(root, text={"gru": {"word_dim": 300}}, train={"embed_size": dim}))
    ids, caption_ids = np.arange(items), np.arange(described)
    owners = caption_ids % items
    _write_data_set(root, ids, owners)
    words = [*SPECIAL, *QUERY.split()]
    words += [f"word{number}" for number in range(WORDS - len(words))]
    extracted = root / paths.extracted("toy", "words")
    tokens = np.tile([1, 2], described), np.full(described, 2), 0
    meta = {"method": "words", "options": params.texts["words"].method.params.model_dump()}
    texts.write(extracted, "tokens", caption_ids, [tokens], meta, words)
    node = params.runs["sum"]
    model = build(node.image, node.text, node.similarity, (2048,), WORDS, dim, seed=0)
    config = {key: describe(getattr(node, key)) for key in RUN_FAMILIES}
    config |= {"embed_size": dim, "feature_shape": [2048], "text_inputs": WORDS, "dataset": "toy", "texts": "words"}
    config |= {"texts_sha256": texts.read(extracted).digest, "features": "plain"}
    model_files.write(root / paths.trained("sum"), model.state_dict(), words, config)
    about = {
        "run": "sum", "model_sha256": model_files.read(root / paths.trained("sum")).digest, "similarity": "cosine",
        "similarity_params": "{}", "normalised": "true",
    }  # fmt: skip
    rng = np.random.default_rng(0)
    centres = planted(rng, np.zeros((topics, dim), np.float32), 1.0)
    topic = rng.integers(topics, size=items)
    for name, keys, image_ids in [(embeddings.IMAGES, ids, ids), (embeddings.CAPTIONS, caption_ids, owners)]:
        vectors = planted(rng, centres[topic[image_ids]], 1.0)
        side = Side(keys, image_ids, np.full(len(keys), "test"), vectors, about)
        embeddings.write(root / paths.embedded("sum") / name, side)


def _write_data_set(root: Path, ids: np.ndarray, owners: np.ndarray) -> None:
    folder, zeros = root / paths.prepared("toy"), np.zeros(len(ids), np.int32)
    columns = {"image_id": ids, "file": [f"{number:09d}.jpg" for number in ids], "split": np.full(len(ids), "test")}
    columns |= {"width": zeros + 640, "height": zeros + 480, "sha256": [""] * len(ids)}
    images.write(folder, pa.table(columns), ".")
    sentences = [f"a caption of image {number} with two dogs on grass" for number in owners]
    columns = {"caption_id": np.arange(len(owners)), "image_id": owners, "text": sentences}
    captions.write(folder, pa.table({**columns, "split": np.full(len(owners), "test")}))


_SEARCH = "GET /api/search?text=blue&k=1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
_HEADERS = "GET / HTTP/1.1\r\nHost: {host}\r\n"
_PHOTO = (
    "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    'Content-Length: 1000000\r\n\r\n--b\r\nContent-Disposition: form-data; name="photo"; filename="x"\r\n\r\n'
)
# What a slow client says first, and then again and again.
_SLOW = [("", ""), (_HEADERS, "X: y\r\n"), (_PHOTO, "x")]


@benchmark(slow=200, crowd=500, searches=100, seconds=0.02)
def serve(options: argparse.Namespace) -> None:
    """How soon ``vse-pipe serve`` answers while others press on it.

    The engine is a stand-in whose every search takes --seconds. Searches in turn with nobody else there; the same
    beside --slow clients, a third of which say nothing, a third send a header line every half second and a third a
    byte of a photo; --crowd searches at the same instant.
    """

    async def rounds(host: str, port: int) -> None:
        show(f"nobody else: {_summary(await in_turn(host, port, options.searches))}")
        async with pressed(host, port, options.slow):
            show(f"{options.slow} slow clients: {_summary(await in_turn(host, port, options.searches))}")
        show(f"{options.crowd} at once: {_summary(await at_once(host, port, options.crowd))}")

    with tempfile.TemporaryDirectory() as folder:
        write_params(Path(folder))
        with served(Path(folder), "--run", "sum", seconds=options.seconds) as (url, _):
            address = urlsplit(url)
            asyncio.run(rounds(address.hostname, address.port))


@dataclass(frozen=True)
class Answer:
    """status: of HTTP, or the name of what went wrong with the connection; retry: the header Retry-After."""

    status: str
    seconds: float
    retry: str | None = None


async def in_turn(host: str, port: int, searches: int) -> list[Answer]:
    """Ten a second, as long as they are answered in time; one that has waited for five seconds is given up."""
    answers = []
    for _ in range(searches):
        answers.append(await _ask(host, port, patience=5.0))
        await asyncio.sleep(max(0.0, 0.1 - answers[-1].seconds))
    return answers


async def at_once(host: str, port: int, crowd: int) -> list[Answer]:
    return await asyncio.gather(*(_ask(host, port) for _ in range(crowd)))


@contextlib.asynccontextmanager
async def pressed(host: str, port: int, clients: int) -> AsyncIterator[None]:
    """``clients`` slow ones while the block runs, all of them connected once before."""
    connected = [asyncio.Event() for _ in range(clients)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_dawdle(host, port, number, event)) for number, event in enumerate(connected)]
        for event in connected:
            await event.wait()
        yield
        for task in tasks:
            task.cancel()


async def _dawdle(host: str, port: int, number: int, connected: asyncio.Event) -> None:
    first, again = (text.format(host=host).encode() for text in _SLOW[number % len(_SLOW)])
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


async def _ask(host: str, port: int, patience: float = 60.0) -> Answer:
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


def _summary(answers: list[Answer]) -> str:
    retries = [f" with Retry-After {answer.retry}" if answer.retry else "" for answer in answers]
    counts = collections.Counter(answer.status + retry for answer, retry in zip(answers, retries, strict=True))
    times = sorted(answer.seconds for answer in answers)
    percentile = times[min(len(times) - 1, int(0.95 * len(times)))]
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(counts.items()))
    return f"{statuses}; median {statistics.median(times):.3f} s, 95% {percentile:.3f} s, longest {times[-1]:.3f} s"


if __name__ == "__main__":
    run(__name__)
