"""A search engine without a model, which ranks pictures by the colour words they consist of."""

import io
import os
import re
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

from PIL import Image
from starlette.testclient import TestClient

from tests.command_line import heed_ctrl_c
from tests.rules.sources import ROOT
from vse_pipe import cli
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.pictures import images
from vse_pipe.search.app import create
from vse_pipe.search.query import PHOTO, TEXT, TO_CAPTIONS, Answer, Hit, Limits, Term, direction

COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (40, 60, 200), "white": (250, 250, 250)}
# Where the words of a sentence with the word "matched" lie in every picture.
MATCHES = [
    {"word": "<b>blue</b>", "region": 0, "weight": 0.2, "box": [0.0, 0.0, 1.0, 1.0]},
    {"word": "sky", "region": 3, "weight": 0.25, "box": [90.0, 60.0, 450.0, 300.0]},
    {"word": "sea", "region": 1, "weight": 0.5, "box": [0.0, 300.0, 900.0, 600.0]},
]
HOSTILE = "<script>alert(1)</script> & <img src=x onerror=alert(2)> \"quoted' caption"


def photo() -> bytes:
    return _encoded(Image.new("RGB", (300, 200), "teal"), "JPEG")


def _encoded(picture: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind)
    return out.getvalue()


@dataclass
class StandIn:
    """Images 7, 17, 27, ... of one colour each; the last has no picture, and the caption of the first is hostile.

    seconds: what a search takes; gate: what it waits for; it leaves a file ``asked`` beside the pictures.
    """

    folder: Path
    inference: str = "nns"
    run: str = "toy"
    split: str = "test"
    left_out: dict[str, int] = field(default_factory=dict)
    named: bool = False
    seconds: float = 0.0
    gate: threading.Event | None = None
    calls: list[tuple] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0

    def __post_init__(self) -> None:
        self.names = [*COLOURS, "grey"]
        self.ids = {name: 10 * place + 7 for place, name in enumerate(self.names)}
        self.counts = {"images": len(self.names), "captions": len(self.names)}
        self.folder.mkdir(exist_ok=True)
        for name, colour in COLOURS.items():
            Image.new("RGB", (900, 600), colour).save(self.folder / f"{name}.png")

    def under(self, inference: str) -> "StandIn":
        return replace(self, inference=inference)

    def by_text(self, text: str, k: int = 10) -> Answer:
        return self.ask((Term(TEXT, text),), Limits(k))

    def ask(self, parts: Sequence[Term], wanted: Limits) -> Answer:
        """Of one part; each ``where`` is file=PART of a picture's name."""
        (part, *others) = parts
        names = [name for name in self.names if all(one.partition("=")[2] in name for one in wanted.where)]
        told = tuple(asdict(one) for one in parts) if others else ()
        to_captions = direction(parts, wanted.to, self.counts["captions"]) == TO_CAPTIONS
        unknown: list[str] = []
        kind, value = "text", part.value
        if part.kind == TEXT:
            if part.value == "crash":
                raise RuntimeError("a planted failure")
            words = " ".join(one.value for one in parts).split()
            names.sort(key=lambda name: name not in words)
            unknown = [word for word in words if word not in self.names]
        elif part.kind == PHOTO:
            kind, value = "photo", part.content
            images.decode(value, "a photo")
        else:
            kind, value = "image_id", self._number(part.value)
            if value not in self.ids.values():
                raise InputError(f"image {value} is not in the test split")
        narrowed = {"where": list(wanted.where), "left": len(names)} if wanted.where else {}
        chosen = names[wanted.offset : wanted.offset + wanted.k]
        return self._answer((kind, value), chosen, to_captions, unknown, wanted, (told, narrowed))

    def _number(self, image_id: int | str) -> int | str:
        if not self.named and not str(image_id).isdigit():
            raise UsageError(f"image_id must be a whole number, got {image_id!r}")
        return image_id if self.named else int(image_id)

    def correction(self, direction: str) -> SimpleNamespace:
        return SimpleNamespace(about={})

    def picture(self, image_id: int) -> Path | None:
        number = self._number(image_id)
        if number not in self.ids.values():
            raise InputError(f"no image_id {image_id}")
        return next((self.folder / f"{name}.png" for name in COLOURS if self.ids[name] == number), None)

    def content(self, image_id: int) -> bytes | None:
        path = self.picture(image_id)
        return path and path.read_bytes()

    def _answer(self, asked: tuple, names: list, captions: bool, unknown: list, wanted: Limits, more) -> Answer:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        self.calls.append((*asked, wanted.k))
        self.wanted = wanted
        (self.folder / "asked").touch()
        time.sleep(self.seconds)
        assert self.gate is None or self.gate.wait(30), "nobody opened the gate"
        hits = []
        for rank, name in enumerate(names, start=wanted.offset + 1):
            image = self.ids[name]
            caption = image * 10 if captions and not self.named else None
            hits.append(Hit(rank, 1 - rank / 10, image, caption, self._text(name), "", 900, 600))
        self.busy -= 1
        notes = ("a note",) if unknown else ()
        answer = Answer(str(asked[1])[:40], self.run, self.inference, tuple(hits), tuple(unknown), 0.0123, notes, *more)
        return replace(answer, regions=(MATCHES,) * len(hits)) if "matched" in unknown else answer

    def _text(self, name: str) -> str:
        return HOSTILE if name == "red" else f"a {name} square"


def client_of(engines: dict[str, StandIn]) -> TestClient:
    """A browser without scripts at 127.0.0.1, whose failed requests are answers and not exceptions."""
    return TestClient(create(engines), base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def served(project: Path, *arguments: str, seconds: float = 0.0):
    """As ``started``, with the stand-in engine; seconds: what each search takes."""
    stand_in = ("-m", "tests.search.serve.standin", str(project / "pictures"), str(seconds))
    return started(project, *stand_in, "serve", *arguments)


@contextmanager
def started(project: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """python with ``arguments``: the page's address and the process, whose stderr up to then is ``process.said``."""
    process = subprocess.Popen(
        [sys.executable, *arguments, "--port", "0"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/pipeline:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
        text=True,
    )
    try:
        process.said = ""
        while not (ready := re.search(r"searching at (http://\S+/) until", process.said)):
            line = process.stderr.readline()
            assert line, f"ended before it was ready: {process.said}"
            process.said += line
        yield ready[1], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def main() -> None:
    folder, seconds, *arguments = sys.argv[1:]

    class Engine:
        @staticmethod
        def open(params, run, inference="nns", split="test", device="auto"):
            return StandIn(Path(folder), inference, run, split, seconds=float(seconds))

    sys.modules["vse_pipe.search.engine"] = types.SimpleNamespace(Engine=Engine, TO_IMAGES="text_to_image")
    sys.argv = ["vse-pipe", *arguments]
    cli.main()


if __name__ == "__main__":
    main()
