"""A search engine without a model: it ranks pictures by the colour words they are made of."""

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

from PIL import Image

from vse_pipe.core.errors import InputError
from vse_pipe.tools.search.query import PHOTO, TEXT, TO_CAPTIONS, Answer, Hit, Limits, Term, direction

COLOURS = {"red": (200, 30, 30), "green": (30, 160, 60), "blue": (40, 60, 200), "white": (250, 250, 250)}
HOSTILE = "<script>alert(1)</script> & <img src=x onerror=alert(2)> \"quoted' caption"


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
        """Of one part; ``where`` leaves the pictures whose name it holds, ``group`` calls the last two alike."""
        (part, *others) = parts
        names = [name for name in self.names if wanted.where is None or wanted.where in name]
        end = wanted.offset + wanted.k
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
        else:
            kind, value = "image_id", part.value if self.named else int(part.value)
            if value not in self.ids.values():
                raise InputError(f"image {value} is not in the test split")
        if wanted.least is not None:
            names = names[: 0 if wanted.least > 0.9 else 1]
        alike: tuple = ()
        if wanted.group is not None and len(names) > 1:
            alike = (self.ids[names.pop()],)
        narrowed = {} if wanted.where is None else {"where": wanted.where, "left": len(names)}
        chosen = names[wanted.offset : end]
        return self._answer((kind, value), chosen, to_captions, unknown, wanted, alike, (told, narrowed))

    def correction(self, direction: str) -> SimpleNamespace:
        return SimpleNamespace(about={})

    def picture(self, image_id: int) -> Path | None:
        if image_id not in self.ids.values():
            raise InputError(f"no image_id {image_id}")
        return next((self.folder / f"{name}.png" for name in COLOURS if self.ids[name] == image_id), None)

    def _answer(
        self,
        asked: tuple,
        names: list[str],
        captions: bool,
        unknown: list[str],
        wanted: Limits,
        alike: tuple,
        more: tuple,
    ) -> Answer:
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
            same, sure = alike if name == names[-1] else (), 0.9 if wanted.probability else None
            hits.append(Hit(rank, 1 - rank / 10, image, caption, self._text(name), "", same, len(same), sure))
        self.busy -= 1
        notes = ("a note",) if unknown else ()
        return Answer(str(asked[1])[:40], self.run, self.inference, tuple(hits), tuple(unknown), 0.0123, notes, *more)

    def _text(self, name: str) -> str:
        return HOSTILE if name == "red" else f"a {name} square"
