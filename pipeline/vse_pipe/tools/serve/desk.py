"""Between the web and the search engines: searches, and the line of those who wait for one."""

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

# Of what is alike to a result so many are shown.
ALIKE = 12
# Items times results, where what is alike is one result: each item is compared with each result.
_COMPARED = 5 * 10**7
# Seconds in line, and the places in it that one address may take.
TURN_SECONDS = 10.0
OF_ADDRESS = 64


@dataclass(frozen=True)
class ResultPage:
    """answer: the engine's, of one page. document: the same for programs, as ``search --json`` has it, with ``offset`` and the offset
    of the results that follow as ``next``, None where there are none. pictures: those image_ids of its hits, of what is alike
    to them, and of the query, that have a picture to show."""

    answer: Any
    document: dict
    pictures: frozenset[int | str]


class Desk:
    """The engines of one run, by inference criterion; they share run, split and pictures."""

    def __init__(self, engines: Mapping[str, Searcher], why: str) -> None:
        self._engines, self._why = dict(engines), why
        self.inferences = list(engines)
        first = next(iter(self._engines.values()))
        self.run, self.split, self.counts = first.run, first.split, first.counts
        self.picture, self.named = first.picture, first.named

    def search(self, query: Query) -> ResultPage:
        """For one thread at a time. Raises what the engine raises: InputError, UsageError."""
        engine, parts = self._engines[query.inference], _parts(query)
        way = direction(parts, query.to, self.counts["captions"])
        items, last = self.counts["images" if way == TO_IMAGES else "captions"], query.offset + query.k
        if query.group is not None and items * last > _COMPARED:
            raise UsageError(
                f"grouped, the first {_COMPARED // items:,} results among {items:,} can be asked for, not those to {last:,}"
            )
        # One more than is shown: whether there is any.
        limits = Limits(
            query.k + 1, query.to, query.where, query.group, query.offset, query.least is not None, query.least
        )
        longer = engine.ask(parts, limits)
        answer = replace(longer, hits=longer.hits[: query.k])
        deepest = DEEPEST if query.group is None else min(DEEPEST_GROUPED, _COMPARED // max(1, items))
        more = len(longer.hits) > query.k and query.photo is None and last + query.k <= deepest
        content = {
            **document(engine, answer, way, self._why),
            "offset": query.offset,
            "next": last if more else None,
        }
        shown = {hit.image_id for hit in answer.hits}
        if query.image_id is not None:
            shown.add(query.image_id)
        if way == TO_IMAGES:
            shown.update(one for hit in answer.hits for one in hit.alike[:ALIKE])
        return ResultPage(answer, content, frozenset(number for number in shown if self.picture(number) is not None))


def _parts(query: Query) -> tuple[Term, ...]:
    """Raises UsageError for a text that names a file: none of this machine is opened for a visitor."""
    if query.photo is not None:
        return (Term(PHOTO, "a photo", content=query.photo),)
    if query.image_id is not None:
        return (Term(IMAGE, str(query.image_id)),)
    assert query.text is not None
    return parse(query.text, files=False)


class WaitingLine:
    """``turns`` at a time. Those asked to come again get status 429 or 503 with Retry-After."""

    def __init__(self, turns: int) -> None:
        self._turns = anyio.CapacityLimiter(turns)
        self._taken: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def turn(self, address: str, places: int = 1) -> AsyncIterator[None]:
        """Wait for a turn and have it while the block runs. places: in line, more for what needs more memory.

        Raises HTTPException where the address has taken its places, or where the turn does not come.
        """
        if self._taken[address] + places > OF_ADDRESS:
            raise later(429, "too many requests of this address wait already; try again in a moment")
        self._taken[address] += places
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
            self._taken[address] -= places
            if not self._taken[address]:
                del self._taken[address]
