"""Between the web and the search engines."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vse_pipe.core.errors import UsageError
from vse_pipe.tools.search.answer import Searcher, document
from vse_pipe.tools.search.query import IMAGE, PHOTO, TO_IMAGES, Term, Wanted, direction, parse
from vse_pipe.tools.serve.query import DEEPEST, DEEPEST_GROUPED, Query

# Of what is alike to a result so many are shown.
ALIKE = 12
# Items times results, where what is alike is one result: each item is compared with each result.
_COMPARED = 5 * 10**7


@dataclass(frozen=True)
class Found:
    """answer: the engine's, of one page. told: the same for programs, as ``search --json`` has it, with ``offset`` and the offset
    of the results that follow as ``next``, None where there are none. pictures: those image_ids of its hits, of what is alike
    to them, and of the query, that have a picture to show."""

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
        engine, parts = self._engines[query.inference], _parts(query)
        way = direction(parts, query.to, self.counts["captions"])
        items, last = self.counts["images" if way == TO_IMAGES else "captions"], query.offset + query.k
        if query.group is not None and items * last > _COMPARED:
            raise UsageError(
                f"grouped, the first {_COMPARED // items:,} results among {items:,} can be asked for, not those to {last:,}"
            )
        # One more than is shown: whether there is any.
        wanted = Wanted(
            query.k + 1, query.to, query.where, query.group, query.offset, query.least is not None, query.least
        )
        whole = engine.ask(parts, wanted)
        answer = replace(whole, hits=whole.hits[: query.k])
        deepest = DEEPEST if query.group is None else min(DEEPEST_GROUPED, _COMPARED // max(1, items))
        more = len(whole.hits) > query.k and query.photo is None and last + query.k <= deepest
        told = {
            **document(engine, answer, way, self._why),
            "offset": query.offset,
            "next": last if more else None,
        }
        shown = {hit.image_id for hit in answer.hits}
        if query.image_id is not None:
            shown.add(query.image_id)
        if way == TO_IMAGES:
            shown.update(one for hit in answer.hits for one in hit.alike[:ALIKE])
        return Found(answer, told, frozenset(number for number in shown if self.picture(number) is not None))


def _parts(query: Query) -> tuple[Term, ...]:
    """Raises UsageError for a text that names a file: none of this machine is opened for a visitor."""
    if query.photo is not None:
        return (Term(PHOTO, "a photo", content=query.photo),)
    if query.image_id is not None:
        return (Term(IMAGE, str(query.image_id)),)
    assert query.text is not None
    return parse(query.text, files=False)
