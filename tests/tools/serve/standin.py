"""A search engine without a model: it ranks pictures by the colour words they are made of."""

import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace

from PIL import Image

from pipeline.core.errors import InputError

COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (40, 60, 200), "white": (250, 250, 250)}
HOSTILE = "<script>alert(1)</script> & <img src=x onerror=alert(2)> \"quoted' caption"


@dataclass
class Hit:
    rank: int
    score: float
    image_id: int
    caption_id: int | None
    text: str | None
    file: str


@dataclass
class Answer:
    query: str
    run: str
    inference: str
    hits: list[Hit]
    unknown: list[str]
    seconds: float
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict:
        return asdict(self)


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

    def by_text(self, text: str, k: int = 10) -> Answer:
        if text == "crash":
            raise RuntimeError("a planted failure")
        words = text.split()
        order = sorted(self.names, key=lambda name: name not in words)
        return self._answer("text", text, order[:k], False, [word for word in words if word not in self.names])

    def by_image(self, content: bytes, k: int = 10) -> Answer:
        return self._answer("photo", content, self.names[:k], True, [])

    def by_image_id(self, image_id: int, k: int = 10) -> Answer:
        if image_id not in self.ids.values():
            raise InputError(f"image {image_id} is not in the test split")
        return self._answer("image_id", image_id, self.names[:k], True, [])

    def correction(self, direction: str) -> SimpleNamespace:
        return SimpleNamespace(about={})

    def keep(self) -> None:
        self.calls.append(("keep", None, 0))

    def picture(self, image_id: int) -> Path | None:
        if image_id not in self.ids.values():
            raise InputError(f"no image_id {image_id}")
        return next((self.folder / f"{name}.png" for name in COLOURS if self.ids[name] == image_id), None)

    def _answer(self, kind: str, query, names: list[str], captions: bool, unknown: list[str]) -> Answer:
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        self.calls.append((kind, query, len(names)))
        (self.folder / "asked").touch()
        time.sleep(self.seconds)
        assert self.gate is None or self.gate.wait(30), "nobody opened the gate"
        hits = [
            Hit(rank, 1 - rank / 10, self.ids[name], self.ids[name] * 10 if captions else None, self._text(name), "")
            for rank, name in enumerate(names, start=1)
        ]
        self.busy -= 1
        return Answer(str(query)[:40], self.run, self.inference, hits, unknown, 0.0123, ("a note",) if unknown else ())

    def _text(self, name: str) -> str:
        return HOSTILE if name == "red" else f"a {name} square"
