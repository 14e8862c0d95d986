"""The web application: one page that works without scripts, the same searches as JSON, and the
pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlencode

import anyio
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vse_pipe import report
from vse_pipe.core.errors import UsageError, unknown
from vse_pipe.core.text import LONGEST
from vse_pipe.report import formatting
from vse_pipe.report.matches import drawing
from vse_pipe.report.pictures import data_uri, thumbnail
from vse_pipe.search import query as query_language
from vse_pipe.search.query import IMAGE, PHOTO, Answer, Limits, Term, direction
from vse_pipe.search.server import LOOPBACK
from vse_pipe.search.show import answer_document
from vse_pipe.search.site import SHARED, Site, checked, require_post

if TYPE_CHECKING:
    from vse_pipe.search.engine import Engine

# Pixels of a thumbnail: twice the width of a tile, for screens with two pixels to a point.
SIDE = 400
_DATA = ("/api/", "/picture/", "/health")
_FAILED = "the search failed; the terminal of vse-pipe serve says why"
_TEMPLATES = Path(__file__).parent / "template"
# The template and the style of words over pictures, which the report has too.
_REPORT = Path(report.__file__).parent / "template"
ASSETS = {**SHARED, "/more.js": _TEMPLATES / "more.js", "/words.css": _REPORT / "words.css"}
# Pixels of an uploaded photo on the page.
_PREVIEW = 240
MAX_TEXT, MAX_K, DEFAULT_K = 1000, 100, 10
# Bytes of an upload; a photo of a telephone has 3 to 12 MB.
MAX_UPLOAD = 20_000_000
# Last result that can be requested.
DEEPEST = 10_000
Condition = Annotated[str, Field(max_length=MAX_TEXT)]
# Values of a form or an address; ``where`` may stand in it several times.
Fields = dict[str, str | list[str]]


class Query(BaseModel):
    """One search: exactly one of ``text``, ``image_id`` and ``photo`` is set. k: number of results
    after the first ``offset``; the other fields: as in ``vse_pipe.search.query.Limits``."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    text: Annotated[str, Field(max_length=MAX_TEXT)] | None = None
    image_id: Annotated[str, Field(max_length=LONGEST)] | None = None
    photo: bytes | None = None
    k: Annotated[int, Field(ge=1, le=MAX_K)] = DEFAULT_K
    offset: Annotated[int, Field(ge=0, le=DEEPEST)] = 0
    inference: str | None = None
    to: Literal["images", "captions"] | None = None
    where: tuple[Condition, ...] = ()

    @model_validator(mode="after")
    def _has_one_subject(self) -> Self:
        if sum(subject is not None for subject in (self.text, self.image_id, self.photo)) != 1:
            raise ValueError("search for what? give text, image_id or a photo, one of them")
        return self


@dataclass(frozen=True)
class ResultPage:
    """answer: of the engine, for one page; document: for programs, as ``search --json`` with
    ``offset`` and ``next``, the offset of the next results or None; image_id: that was searched
    with; pictures: ids of all images on the page that have a picture; drawings: of each hit, see
    ``matches.drawing``; preview: the photo of the query, small."""

    answer: Answer
    document: dict
    image_id: int | str | None
    pictures: frozenset[int | str]
    drawings: list[dict | None]
    preview: str | None


def _parts(query: Query) -> tuple[Term, ...]:
    """Parts of the query. Raises UsageError for a text that names a file: visitors cannot open
    files of this machine."""
    if query.photo is not None:
        return (Term(PHOTO, "a photo", content=query.photo),)
    if query.image_id is not None:
        return (Term(IMAGE, query.image_id),)
    return query_language.parse(query.text or "", files=False)


def create(engines: "Mapping[str, Engine]", hosts: Sequence[str] = LOOPBACK, reason: str = "as asked") -> ASGIApp:
    """engines: one per inference criterion, all of the same run and split; the first is the
    default.

    reason: why the run was chosen. hosts: accepted names in the Host header. The application
    answers

    - GET /, POST /: the page; the fields of ``Query``, ``photo`` in a POST;
    - GET /api/search, POST /api/search: the document of ``vse-pipe search --json``;
    - GET /picture/ID: a thumbnail of an image of the data set; GET /health: what is served.
    """
    site = _SearchSite(engines, reason)
    routes = [
        Route("/", site.page, methods=["GET", "POST"]),
        Route("/api/search", site.api, methods=["GET", "POST"]),
        Route("/picture/{image_id:path}", site.picture),
        Route("/health", site.health),
    ]
    return site.application(routes, hosts)


class _SearchSite(Site):
    """The pages of one run; its engines, by inference criterion, share split and pictures."""

    def __init__(self, engines: "Mapping[str, Engine]", reason: str) -> None:
        self._engines, self._reason = dict(engines), reason
        self.engine = next(iter(self._engines.values()))
        super().__init__(ASSETS, _DATA, _FAILED, self.engine.content, SIDE)
        environment = formatting.template_environment(_TEMPLATES, _REPORT)
        environment.globals |= {
            "max_k": MAX_K,
            "max_text": MAX_TEXT,
            "max_megabytes": MAX_UPLOAD // 10**6,
            "literal": query_language.literal,
            "engine": self.engine,
            "inferences": list(engines),
        }
        self._template = environment.get_template("page.html")
        # One search at a time uses the model; pages and pictures are served meanwhile.
        self._searches = anyio.CapacityLimiter(1)

    async def page(self, request: Request) -> Response:
        fields, query = await self._query(request)
        if query is None:
            return HTMLResponse(self._rendered({}))
        return HTMLResponse(self._rendered(fields, query=query, results=await self._search(query)))

    async def api(self, request: Request) -> Response:
        _, query = await self._query(request)
        if query is None:
            raise UsageError("search for what? give text, image_id, or POST a photo")
        return JSONResponse((await self._search(query)).document)

    async def picture(self, request: Request) -> Response:
        image_id = request.path_params["image_id"]
        # A text id may contain a slash; it is never used as a path.
        if not image_id or ("/" in image_id and not self.engine.named):
            raise HTTPException(404)
        return await self.thumbnail(image_id)

    async def health(self, request: Request) -> Response:
        served = {"run": self.engine.run, "split": self.engine.split, "inferences": list(self._engines)}
        return JSONResponse({"status": "ok", **served, **self.engine.counts})

    def error_page(self, request: Request, status: int, message: str) -> Response:
        fields: Fields = dict(request.query_params)
        fields["where"] = request.query_params.getlist("where")
        return HTMLResponse(self._rendered(fields, message=message), status)

    async def _query(self, request: Request) -> tuple[Fields, Query | None]:
        fields, photo = await _fields_of(request)
        return fields, _query_of(fields, photo)

    async def _search(self, query: Query) -> ResultPage:
        return await anyio.to_thread.run_sync(self._results, query, limiter=self._searches)

    def _results(self, query: Query) -> ResultPage:
        """The results of a query. Raises InputError and UsageError as the engine."""
        inference = query.inference or next(iter(self._engines))
        if inference not in self._engines:
            raise UsageError(unknown("inference", inference, self._engines))
        engine, parts = self._engines[inference], _parts(query)
        target = direction(parts, query.to, engine.counts["captions"])
        end = query.offset + query.k
        # One more hit shows whether further results exist.
        limits = Limits(query.k + 1, query.to, query.where, query.offset)
        longer = engine.ask(parts, limits)
        answer = replace(longer, hits=longer.hits[: query.k], regions=longer.regions[: query.k])
        more = len(longer.hits) > query.k and query.photo is None and end + query.k <= DEEPEST
        document = answer_document(engine, answer, target, self._reason)
        document |= {"offset": query.offset, "next": end if more else None}
        image_ids = {hit.image_id for hit in answer.hits}
        image_id: int | str | None = query.image_id
        if image_id is not None:
            image_id = image_id if engine.named else int(image_id)
            image_ids.add(image_id)
        pictures = frozenset(number for number in image_ids if engine.picture(number) is not None)
        # Only a sentence that finds images by their regions has any.
        matched = zip(answer.hits, answer.regions, strict=False)
        drawings = [drawing(matches, hit.width, hit.height) for hit, matches in matched]
        small = None if query.photo is None else thumbnail(query.photo, _PREVIEW)
        preview = None if small is None else data_uri(small)
        return ResultPage(answer, document, image_id, pictures, drawings, preview)

    def _rendered(self, fields: Fields, **values: Any) -> str:
        """fields: of the form, as the visitor sent them."""
        form: Fields = dict.fromkeys(Query.model_fields, "")
        form |= {"k": str(DEFAULT_K), "inference": next(iter(self._engines)), **fields}
        options = ("k", "inference", "where")

        def again(**subject: object) -> str:
            """The address of another search with the same options."""
            fields = {name: form[name] for name in options if form[name]}
            return "/?" + urlencode({**subject, **fields}, doseq=True)

        def more(offset: int) -> str:
            """The address of the next results."""
            names = ("text", "image_id", "to")
            return again(**{name: form[name] for name in names if form[name]}, offset=offset)

        context = {"message": None, "query": None, "results": None, **values}
        return self._template.render(form=form, again=again, more=more, **context)


async def _fields_of(request: Request) -> tuple[Fields, bytes | None]:
    """The fields of a request without the empty ones, and the content of an uploaded photo.

    Raises UsageError for a form without a photo, HTTPException for an upload that is too large or
    comes from another site."""
    values, photo = request.query_params.multi_items(), None
    if request.method == "POST":
        more, photo = await _uploaded(request)
        values += more
    fields: Fields = {name: value for name, value in values if name != "where" and value.strip()}
    if conditions := [value for name, value in values if name == "where" and value.strip()]:
        fields["where"] = conditions
    return fields, photo


def _query_of(fields: Fields, photo: bytes | None = None) -> Query | None:
    """The query; None without anything to search for. Raises UsageError for a wrong value."""
    if photo is None and not {"text", "image_id"} & fields.keys():
        checked(Query, {"text": "-", **fields})
        return None
    return checked(Query, {**fields, "photo": photo})


async def _uploaded(request: Request) -> tuple[list[tuple[str, str]], bytes]:
    require_post(request, MAX_UPLOAD)
    async with request.form(max_files=1, max_fields=12, max_part_size=10_000) as form:
        values, photo = [], b""
        for name, value in form.multi_items():
            if isinstance(value, str):
                values.append((name, value))
            elif name == "photo":
                photo = await value.read()
    if not photo:
        raise UsageError("choose a photo to search with (multipart/form-data, field photo)")
    return values, photo
