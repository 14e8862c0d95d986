"""The web application: one page that works without scripts, the same searches as JSON, and the pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vse_pipe import report
from vse_pipe.core.errors import UsageError
from vse_pipe.report import formatting
from vse_pipe.report.matches import drawing
from vse_pipe.report.pictures import data_uri, thumbnail
from vse_pipe.search import query as query_language
from vse_pipe.search.query import IMAGE, PHOTO, TO_IMAGES, Limits, Searcher, Term, answer_document, direction
from vse_pipe.search.serve import requests
from vse_pipe.search.serve.requests import Query
from vse_pipe.search.serve.server import LOOPBACK
from vse_pipe.search.serve.site import SHARED, Site

# Maximum number of near duplicates of a result on the page.
ALIKE = 12
# Maximum of items times grouped results: each item is compared with each result.
_COMPARED = 5 * 10**7
# Pixels of a thumbnail: twice the width of a tile, for screens with two pixels to a point.
SIDE = 400
_DATA = ("/api/", "/picture/", "/health")
_FAILED = "the search failed; the terminal of vse-pipe serve says why"
_TEMPLATES = Path(__file__).parent / "templates"
# The template and the style of words over pictures, which the report has too.
_REPORT = Path(report.__file__).parent / "template"
ASSETS = {**SHARED, "/more.js": _TEMPLATES / "more.js", "/words.css": _REPORT / "words.css"}
# Pixels of an uploaded photo on the page.
_PREVIEW = 240


@dataclass(frozen=True)
class ResultPage:
    """answer: of the engine, for one page; document: for programs, as ``search --json`` with ``offset`` and ``next``,
    the offset of the next results or None; pictures: ids of all images on the page that have a picture; drawings: of
    each hit, see ``matches.drawing``."""

    answer: Any
    document: dict
    pictures: frozenset[int | str]
    drawings: list[dict | None]


class Desk:
    """The engines of one run, by inference criterion; they share run, split and pictures."""

    def __init__(self, engines: Mapping[str, Searcher], reason: str) -> None:
        self._engines, self._reason = dict(engines), reason
        self.inferences = list(engines)
        first = next(iter(self._engines.values()))
        self.run, self.split, self.counts = first.run, first.split, first.counts
        self.picture, self.content, self.named = first.picture, first.content, first.named

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
        narrowed = query.to, query.where, query.group, query.offset, query.least is not None, query.least
        longer = engine.ask(parts, Limits(query.k + 1, *narrowed))
        answer = replace(longer, hits=longer.hits[: query.k], regions=longer.regions[: query.k])
        deepest = requests.DEEPEST if query.group is None else min(requests.DEEPEST_GROUPED, _COMPARED // max(1, items))
        more = len(longer.hits) > query.k and query.photo is None and last + query.k <= deepest
        content = answer_document(engine, answer, target, self._reason)
        content |= {"offset": query.offset, "next": last if more else None}
        image_ids = {hit.image_id for hit in answer.hits}
        if query.image_id is not None:
            image_ids.add(query.image_id)
        if target == TO_IMAGES:
            image_ids.update(duplicate for hit in answer.hits for duplicate in hit.alike[:ALIKE])
        pictures = frozenset(number for number in image_ids if self.picture(number) is not None)
        # Only a sentence that finds images by their regions has any.
        matched = zip(answer.hits, answer.regions, strict=False)
        drawings = [drawing(matches, hit.width, hit.height) for hit, matches in matched]
        return ResultPage(answer, content, pictures, drawings)


def _parts(query: Query) -> tuple[Term, ...]:
    """Parts of the query. Raises UsageError for a text that names a file: visitors cannot open files of this
    machine."""
    if query.photo is not None:
        return (Term(PHOTO, "a photo", content=query.photo),)
    if query.image_id is not None:
        return (Term(IMAGE, str(query.image_id)),)
    assert query.text is not None
    return query_language.parse(query.text, files=False)


def create(engines: Mapping[str, Searcher], hosts: Sequence[str] = LOOPBACK, reason: str = "as asked") -> ASGIApp:
    """engines: one per inference criterion, all of the same run and split; the first is the default.

    reason: why the run was chosen. hosts: accepted names in the Host header. The application answers

    - GET /, POST /: the page; ``text``, ``image_id`` or the upload ``photo``, and the other ``requests.FIELDS``;
    - GET /api/search, POST /api/search: the document of ``vse-pipe search --json``;
    - GET /picture/ID: a thumbnail of an image of the data set; GET /health: what is served.
    """
    site = _SearchSite(Desk(engines, reason))
    routes = [
        Route("/", site.page, methods=["GET", "POST"]),
        Route("/api/search", site.api, methods=["GET", "POST"]),
        Route("/picture/{image_id:path}", site.picture),
        Route("/health", site.health),
    ]
    return site.application(routes, hosts)


class _SearchSite(Site):
    def __init__(self, desk: Desk) -> None:
        super().__init__(ASSETS, _DATA, _FAILED, desk.content, SIDE)
        self._desk = desk
        self._pages = Pages(desk)
        self._uploads = requests.Uploads()
        # One search at a time uses the model, and one photo is checked; pages and pictures are served meanwhile.
        self._searches, self._photos = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

    async def page(self, request: Request) -> Response:
        query = await self._query(request)
        if query is None:
            return HTMLResponse(self._pages.empty())
        results = await self._search(request, query)
        if query.photo is None:
            return HTMLResponse(await anyio.to_thread.run_sync(self._pages.results, query, results))
        # Its preview decodes the photo again.
        page = await self.in_turn(request, self._photos, self._pages.results, query, results)
        return HTMLResponse(page)

    async def api(self, request: Request) -> Response:
        query = await self._query(request)
        if query is None:
            raise UsageError("search for what? give text, image_id, or POST a photo")
        return JSONResponse((await self._search(request, query)).document)

    async def picture(self, request: Request) -> Response:
        value = request.path_params["image_id"]
        # A text id may contain a slash; it is never used as a path.
        if not value or ("/" in value and not self._desk.named):
            raise HTTPException(404)
        number = requests.image_id(value, self._desk.named)
        return await self.thumbnail(request, number)

    async def health(self, request: Request) -> Response:
        desk = self._desk
        served = {"run": desk.run, "split": desk.split, "inferences": desk.inferences, **desk.counts}
        return JSONResponse({"status": "ok", **served})

    async def _query(self, request: Request) -> Query | None:
        if request.method != "POST":
            return requests.read(request.query_params.multi_items(), self._desk.inferences, named=self._desk.named)
        values, photo = await self._uploads.read(request)
        fields = [*request.query_params.multi_items(), *values]
        return requests.read(fields, self._desk.inferences, photo, self._desk.named)

    async def _search(self, request: Request, query: Query) -> ResultPage:
        if query.photo is None:
            return await self.in_turn(request, self._searches, self._desk.search, query)
        await self.in_turn(request, self._photos, requests.check_upload, query.photo)
        return await self.in_turn(request, self._searches, self._desk.search, query)

    def error_page(self, request: Request, status: int, message: str) -> Response:
        names = [
            name for name in requests.FIELDS if name in request.query_params and name not in ("image_id", "offset")
        ]
        typed = {name: request.query_params[name] for name in names}
        return HTMLResponse(self._pages.problem(message, Form(**typed)), status)


@dataclass(frozen=True)
class Form:
    """Values of the form as the visitor sent them."""

    text: str = ""
    k: str = str(requests.DEFAULT_K)
    inference: str = ""
    to: str = ""
    where: str = ""
    group: str = ""
    min_probability: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.to or self.where or self.group or self.min_probability)


class Pages:
    """The templates of one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        environment = formatting.template_environment(_TEMPLATES, _REPORT)
        limits = {"max_k": requests.MAX_K, "max_text": requests.MAX_TEXT, "max_megabytes": requests.MAX_UPLOAD // 10**6}
        environment.globals |= {**limits, "alike": ALIKE, "literal": query_language.literal}
        self._page = environment.get_template("page.html")

    def empty(self) -> str:
        return self._render(Form())

    def problem(self, message: str, form: Form) -> str:
        return self._render(form, message=message)

    def results(self, query: Query, results: ResultPage) -> str:
        group, least = (
            "" if number is None else np.format_float_positional(number, trim="-")
            for number in (query.group, query.least)
        )
        narrowed = query.to or "", query.where or "", group, least
        form = Form(query.text or "", str(query.k), query.inference, *narrowed)
        small = thumbnail(query.photo, _PREVIEW) if query.photo is not None else None
        return self._render(form, query=query, results=results, preview=data_uri(small) if small else None)

    def _render(self, form: Form, **values: Any) -> str:
        options = {name: getattr(form, name) for name in ("k", "inference", "where", "group", "min_probability")}

        def again(**fields: object) -> str:
            """The address of another search with the same options."""
            return "/?" + urlencode({**fields, **{name: value for name, value in options.items() if value}})

        def more(offset: int) -> str:
            """The address of the next results."""
            query = values["query"]
            fields = {"text": query.text} if query.text is not None else {"image_id": query.image_id}
            return again(**fields, **({"to": form.to} if form.to else {}), offset=offset)

        context = {"message": None, "query": None, "results": None, "preview": None, **values}
        return self._page.render(desk=self._desk, form=form, again=again, more=more, **context)
