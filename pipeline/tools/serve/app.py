"""The web application: one page that works without scripts, the same searches as JSON, and the pictures."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from pipeline.core.console import warn
from pipeline.core.errors import InputError, PipelineError, UsageError
from pipeline.tools.serve import query as queries
from pipeline.tools.serve.guard import LOOPBACK, Guarded
from pipeline.tools.serve.pages import Form, Pages
from pipeline.tools.serve.pictures import Thumbnails, check_upload
from pipeline.tools.serve.query import FIELDS, MAX_UPLOAD, Query
from pipeline.tools.serve.searching import Desk, Searcher

_TOO_LARGE = f"the upload is too large: {MAX_UPLOAD // 10**6} MB are the most"
_DATA = ("/api/", "/picture/", "/health")
_FAILED = "the search failed; the terminal of vse-pipe serve says why"


def create(engines: Mapping[str, Searcher], hosts: Sequence[str] = LOOPBACK, why: str = "as asked") -> ASGIApp:
    """engines: one per inference criterion, all of the same run and split; the first is the default.

    why: how the run was chosen. hosts: the names that a request's Host header may carry. The application answers

    - GET /, POST /: the page; ``text`` or ``image_id`` with ``k`` and ``inference``, or the upload ``photo``;
    - GET /api/search, POST /api/search: the document of ``vse-pipe search --json``;
    - GET /picture/ID: a thumbnail of an image of the data set; GET /health: what is served.
    """
    site = _Site(Desk(engines, why))
    routes = [
        Route("/", site.page, methods=["GET", "POST"]),
        Route("/api/search", site.api, methods=["GET", "POST"]),
        Route("/picture/{image_id}", site.picture),
        Route("/health", site.health),
        Route("/style.css", site.style),
        Route("/icon.svg", site.icon),
    ]
    handlers: dict[Any, Any] = {PipelineError: site.refused, HTTPException: site.failed, Exception: site.crashed}
    return Guarded(Starlette(routes=routes, exception_handlers=handlers), list(hosts))


class _Site:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._pages = Pages(desk)
        self._thumbnails = Thumbnails(desk.picture)
        self._decoders = anyio.CapacityLimiter(2)

    async def page(self, request: Request) -> Response:
        query = await self._query(request)
        if query is None:
            return HTMLResponse(self._pages.empty())
        found = await self._desk.search(query)
        return HTMLResponse(await anyio.to_thread.run_sync(self._pages.results, query, found))

    async def api(self, request: Request) -> Response:
        query = await self._query(request)
        if query is None:
            raise UsageError("search for what? give text, image_id, or POST a photo")
        return JSONResponse((await self._desk.search(query)).told)

    async def picture(self, request: Request) -> Response:
        number = queries.image_id(request.path_params["image_id"])
        try:
            webp = await anyio.to_thread.run_sync(self._thumbnails.get, number, limiter=self._decoders)
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

    async def icon(self, request: Request) -> Response:
        return Response(self._pages.icon, media_type="image/svg+xml")

    async def _query(self, request: Request) -> Query | None:
        if request.method != "POST":
            return queries.read(request.query_params.multi_items(), self._desk.inferences)
        values, photo = await _upload(request)
        check_upload(photo)
        return queries.read([*request.query_params.multi_items(), *values], self._desk.inferences, photo)

    async def refused(self, request: Request, error: PipelineError) -> Response:
        """The visitor asked for something wrong, or this installation lacks something and its owner should know."""
        if isinstance(error, UsageError | InputError):
            return self._error(request, 400, str(error))
        warn(str(error))
        return self._error(request, 503, str(error))

    async def failed(self, request: Request, error: HTTPException) -> Response:
        response = self._error(request, error.status_code, error.detail)
        response.headers.update(error.headers or {})
        return response

    async def crashed(self, request: Request, error: Exception) -> Response:
        return self._error(request, 500, _FAILED)

    def _error(self, request: Request, status: int, message: str) -> Response:
        if request.url.path.startswith(_DATA):
            return JSONResponse({"error": message}, status)
        typed = {name: request.query_params[name] for name in FIELDS if name in request.query_params}
        typed.pop("image_id", None)
        return HTMLResponse(self._pages.problem(message, Form(**typed)), status)


async def _upload(request: Request) -> tuple[list[tuple[str, str]], bytes]:
    """The plain fields of a form and the content of its field ``photo``. Raises UsageError, HTTPException."""
    # A browser says where a form was sent from; another site has no business here.
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise HTTPException(403, "forms of other sites are not answered")
    async with _bounded(request).form(max_files=1, max_fields=8, max_part_size=10_000) as form:
        values, photo = [], b""
        for name, value in form.multi_items():
            if isinstance(value, str):
                values.append((name, value))
            elif name == "photo":
                photo = await value.read()
    if not photo:
        raise UsageError("choose a photo to search with (multipart/form-data, field photo)")
    return values, photo


def _bounded(request: Request) -> Request:
    """The request with a body that raises HTTPException 413 where it grows beyond MAX_UPLOAD bytes."""
    declared = request.headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit() or int(declared) > MAX_UPLOAD:
        raise HTTPException(413, _TOO_LARGE)
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > MAX_UPLOAD:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return Request(request.scope, receive)
