"""The web application: one page that works without scripts, the same searches as JSON, and the pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.tools.search.answer import Searcher
from vse_pipe.tools.serve import requests
from vse_pipe.tools.serve.desk import Desk, ResultPage, WaitingLine
from vse_pipe.tools.serve.pages import Form, Pages, Thumbnails
from vse_pipe.tools.serve.requests import FIELDS, Query, Uploads, check_upload
from vse_pipe.tools.serve.server import LOOPBACK, Guarded

_DATA = ("/api/", "/picture/", "/health")
# Places in line of a search with a photo, which stays in memory while it waits.
_PHOTO = 8
_FAILED = "the search failed; the terminal of vse-pipe serve says why"


def create(engines: Mapping[str, Searcher], hosts: Sequence[str] = LOOPBACK, reason: str = "as asked") -> ASGIApp:
    """engines: one per inference criterion, all of the same run and split; the first is the default.

    reason: why the run was chosen. hosts: accepted names in the Host header. The application answers

    - GET /, POST /: the page; ``text``, ``image_id`` or the upload ``photo``, and the other ``requests.FIELDS``;
    - GET /api/search, POST /api/search: the document of ``vse-pipe search --json``;
    - GET /picture/ID: a thumbnail of an image of the data set; GET /health: what is served.
    """
    site = _Site(Desk(engines, reason))
    routes = [
        Route("/", site.page, methods=["GET", "POST"]),
        Route("/api/search", site.api, methods=["GET", "POST"]),
        Route("/picture/{image_id:path}", site.picture),
        Route("/health", site.health),
        Route("/style.css", site.style),
        Route("/icon.svg", site.icon),
        Route("/more.js", site.script),
    ]
    handlers: dict[Any, Any] = {
        PipelineError: site.refused,
        HTTPException: site.failed,
        ClientDisconnect: site.left,
        Exception: site.crashed,
    }
    return Guarded(Starlette(routes=routes, exception_handlers=handlers), list(hosts))


class _Site:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pages = Pages(desk)
        self._thumbnails = Thumbnails(desk.picture)
        self._uploads = Uploads()
        # One search at a time uses the model; pages and pictures are served meanwhile.
        self._searches, self._decoders = WaitingLine(1), WaitingLine(2)

    async def page(self, request: Request) -> Response:
        query = await self._query(request)
        if query is None:
            return HTMLResponse(self._pages.empty())
        results = await self._search(request, query)
        return HTMLResponse(await anyio.to_thread.run_sync(self._pages.results, query, results))

    async def api(self, request: Request) -> Response:
        query = await self._query(request)
        if query is None:
            raise UsageError("search for what? give text, image_id, or POST a photo")
        return JSONResponse((await self._search(request, query)).document)

    async def picture(self, request: Request) -> Response:
        value = request.path_params["image_id"]
        if not value or (
            "/" in value and not self._desk.named
        ):  # a text id may contain a slash; it is never used as a path
            raise HTTPException(404)
        number = requests.image_id(value, self._desk.named)
        try:
            async with self._decoders.turn(_address(request)):
                webp = await anyio.to_thread.run_sync(self._thumbnails.get, number)
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        if webp is None:
            raise HTTPException(404, f"no picture of image {number}")
        return Response(webp, media_type="image/webp")

    async def health(self, request: Request) -> Response:
        desk = self._desk
        served = {"run": desk.run, "split": desk.split, "inferences": desk.inferences, **desk.counts}
        return JSONResponse({"status": "ok", **served})

    async def style(self, request: Request) -> Response:
        return Response(self._pages.style, media_type="text/css")

    async def script(self, request: Request) -> Response:
        return Response(self._pages.script, media_type="text/javascript")

    async def icon(self, request: Request) -> Response:
        return Response(self._pages.icon, media_type="image/svg+xml")

    async def _query(self, request: Request) -> Query | None:
        if request.method != "POST":
            return requests.read(request.query_params.multi_items(), self._desk.inferences, named=self._desk.named)
        values, photo = await self._uploads.read(request)
        check_upload(photo)
        fields = [*request.query_params.multi_items(), *values]
        return requests.read(fields, self._desk.inferences, photo, self._desk.named)

    async def _search(self, request: Request, query: Query) -> ResultPage:
        places = 1 if query.photo is None else _PHOTO
        async with self._searches.turn(_address(request), places):
            if await request.is_disconnected():
                raise ClientDisconnect
            return await anyio.to_thread.run_sync(self._desk.search, query)

    async def refused(self, request: Request, error: PipelineError) -> Response:
        """Status 400 for an error of the visitor, 503 with a warning for an error of this installation."""
        if isinstance(error, UsageError | InputError):
            return self._error(request, 400, str(error))
        warn(str(error))
        return self._error(request, 503, str(error))

    async def failed(self, request: Request, error: HTTPException) -> Response:
        response = self._error(request, error.status_code, error.detail)
        response.headers.update(error.headers or {})
        return response

    async def left(self, request: Request, error: ClientDisconnect) -> Response:
        """An unread response: the visitor closed the connection."""
        return Response(status_code=400)

    async def crashed(self, request: Request, error: Exception) -> Response:
        return self._error(request, 500, _FAILED)

    def _error(self, request: Request, status: int, message: str) -> Response:
        if request.url.path.startswith(_DATA):
            return JSONResponse({"error": message}, status)
        typed = {name: request.query_params[name] for name in FIELDS if name in request.query_params}
        for name in ("image_id", "offset"):
            typed.pop(name, None)
        return HTMLResponse(self._pages.problem(message, Form(**typed)), status)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
