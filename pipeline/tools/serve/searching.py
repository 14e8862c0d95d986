"""Between the web and the search engines."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.tools.search.answer import document
from pipeline.tools.serve.query import Query


class Searcher(Protocol):
    """What the web page needs of ``pipeline.tools.search.engine.Engine``."""

    run: str
    inference: str
    split: str
    counts: dict[str, int]
    left_out: dict[str, int]
    named: bool

    def by_text(self, text: str, k: int = 10) -> Any: ...

    def by_image(self, content: bytes, k: int = 10) -> Any: ...

    def by_image_id(self, image_id: int | str, k: int = 10) -> Any: ...

    def picture(self, image_id: int | str) -> Path | None: ...

    def correction(self, direction: str) -> Any: ...


@dataclass(frozen=True)
class Found:
    """answer: the engine's. told: the same for programs, as ``search --json`` has it. pictures: those image_ids of its hits, and of the query, that have a picture to show."""

    answer: Any
    told: dict
    pictures: frozenset[int | str]


class Desk:
    """The engines of one run, by inference criterion; they share run, split and pictures."""

    def __init__(self, engines: Mapping[str, Searcher], why: str) -> None:
        self._engines, self._why = dict(engines), why
        self.inferences = list(engines)
        first = next(iter(self._engines.values()))
        self.run, self.split, self.counts = first.run, first.split, first.counts
        self.picture, self.named = first.picture, first.named

    def search(self, query: Query) -> Found:
        """For one thread at a time. Raises what the engine raises: InputError, UsageError."""
        engine = self._engines[query.inference]
        if query.photo is not None:
            answer = engine.by_image(query.photo, query.k)
        elif query.image_id is not None:
            answer = engine.by_image_id(query.image_id, query.k)
        else:
            assert query.text is not None
            answer = engine.by_text(query.text, query.k)
        direction = "image_to_text" if query.text is None else "text_to_image"
        told = document(engine, answer, direction, self._why)
        shown = {one for one in (*(hit.image_id for hit in answer.hits), query.image_id) if one is not None}
        return Found(answer, told, frozenset(number for number in shown if self.picture(number) is not None))
