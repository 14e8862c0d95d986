"""Searches for the web application, and the waiting line before them."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import anyio

from vse_pipe.core.errors import UsageError
from vse_pipe.tools.search.answer import Searcher, document
from vse_pipe.tools.search.query import IMAGE, PHOTO, TO_IMAGES, Limits, Term, direction, parse
from vse_pipe.tools.serve.requests import DEEPEST, DEEPEST_GROUPED, Query, later

# Maximum number of near duplicates of a result on the page.
ALIKE = 12
# Maximum of items times grouped results: each item is compared with each result.
_COMPARED = 5 * 10**7
# Seconds in line, and places in line of one address.
TURN_SECONDS = 10.0
OF_ADDRESS = 64


@dataclass(frozen=True)
class ResultPage:
    """answer: of the engine, for one page; document: for programs, as ``search --json`` with ``offset`` and ``next``, the offset of
    the next results or None; pictures: ids of all images on the page that have a picture."""

    answer: Any
    document: dict
    pictures: frozenset[int | str]


class Desk:
    """The engines of one run, by inference criterion; they share run, split and pictures."""

    def __init__(self, engines: Mapping[str, Searcher], reason: str) -> None:
        self._engines, self._reason = dict(engines), reason
        self.inferences = list(engines)
        first = next(iter(self._engines.values()))
        self.run, self.split, self.counts = first.run, first.split, first.counts
        self.picture, self.named = first.picture, first.named

    def search(self, query: Query) -> ResultPage:
        """The results of a query, for one thread at a time. Raises InputError and UsageError as the engine."""
        engine, parts = self._engines[query.inference], _parts(query)
        target = direction(parts, query.to, self.counts["captions"])
        items, last = self.counts["images" if target == TO_IMAGES else "captions"], query.offset + query.k
        if query.group is not None and items * last > _COMPARED:
            raise UsageError(
                f"grouped, the first {_COMPARED // items:,} results among {items:,} can be asked for, not those to {last:,}"
            )
        # One more hit shows whether further results exist.
        limits = Limits(
            query.k + 1, query.to, query.where, query.group, query.offset, query.least is not None, query.least
        )
        longer = engine.ask(parts, limits)
        answer = replace(longer, hits=longer.hits[: query.k])
        deepest = DEEPEST if query.group is None else min(DEEPEST_GROUPED, _COMPARED // max(1, items))
        more = len(longer.hits) > query.k and query.photo is None and last + query.k <= deepest
        content = {
            **document(engine, answer, target, self._reason),
            "offset": query.offset,
            "next": last if more else None,
        }
        image_ids = {hit.image_id for hit in answer.hits}
        if query.image_id is not None:
            image_ids.add(query.image_id)
        if target == TO_IMAGES:
            image_ids.update(duplicate for hit in answer.hits for duplicate in hit.alike[:ALIKE])
        return ResultPage(
            answer, content, frozenset(number for number in image_ids if self.picture(number) is not None)
        )


def _parts(query: Query) -> tuple[Term, ...]:
    """Parts of the query. Raises UsageError for a text that names a file: visitors cannot open files of this machine."""
    if query.photo is not None:
        return (Term(PHOTO, "a photo", content=query.photo),)
    if query.image_id is not None:
        return (Term(IMAGE, str(query.image_id)),)
    assert query.text is not None
    return parse(query.text, files=False)


class WaitingLine:
    """Lets ``turns`` requests run at a time. Rejected requests get status 429 or 503 with Retry-After."""

    def __init__(self, turns: int) -> None:
        self._turns = anyio.CapacityLimiter(turns)
        self._places: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, address: str, places: int = 1) -> AsyncIterator[None]:
        """Wait for a turn that lasts while the block runs. places: in line, more for requests that need more memory.

        Raises HTTPException if the address has no places left, or if the turn does not come in time.
        """
        if self._places[address] + places > OF_ADDRESS:
            raise later(429, "too many requests of this address wait already; try again in a moment")
        self._places[address] += places
        try:
            try:
                with anyio.fail_after(TURN_SECONDS):
                    await self._turns.acquire()
            except TimeoutError:
                raise later(503, "too many others wait; try again in a moment") from None
            try:
                yield
            finally:
                self._turns.release()
        finally:
            self._places[address] -= places
            if not self._places[address]:
                del self._places[address]
