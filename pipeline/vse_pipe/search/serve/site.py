"""What the pages of ``serve`` and ``review`` share: files, thumbnails, error answers, and turns of visitors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.report.pictures import thumbnail
from vse_pipe.search.serve.server import Guarded

# Seconds that a request waits for its turn, and requests that wait for one.
TURN_SECONDS, WAITING = 10.0, 64
# Thumbnails that are kept: of 400 pixels about 10 MB, of 900 pixels 60 MB.
THUMBNAILS = 1000
_TEMPLATES = Path(__file__).parent / "templates"
# Files of both pages, by their address.
SHARED = {"/style.css": _TEMPLATES / "style.css", "/icon.svg": _TEMPLATES / "icon.svg"}
_TYPES = {".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}


class Site(ABC):
    """The answers that both pages have in common. A subclass adds its routes and ``error_page``."""

    def __init__(
        self,
        assets: Mapping[str, Path],
        data: tuple[str, ...],
        failure: str,
        content: Callable[[Any], bytes | None],
        side: int,
    ) -> None:
        """assets: files by their address. data: beginnings of addresses whose errors are JSON. failure: the message
        after an unexpected error. content: the bytes of a picture, None without one. side: pixels of thumbnails."""
        self._assets = {path: (file.read_text(encoding="utf-8"), _TYPES[file.suffix]) for path, file in assets.items()}
        self._data, self._failure = data, failure
        self._decoders = anyio.CapacityLimiter(2)

        def made(key: Hashable) -> bytes:
            picture = content(key)
            webp = None if picture is None else thumbnail(picture, side)
            if webp is None:  # raised, so that it is not kept: the picture may come
                raise InputError(f"no picture of {key}")
            return webp

        self._thumbnail = lru_cache(THUMBNAILS)(made)

    def application(self, routes: Sequence[Route], hosts: Sequence[str]) -> ASGIApp:
        """The application with these routes and the assets. hosts: accepted names in the Host header."""
        handlers: dict[Any, Any] = {
            PipelineError: self._refused,
            HTTPException: self._failed,
            ClientDisconnect: self._disconnected,
            Exception: self._crashed,
        }
        all_routes = [*routes, *(Route(path, self._asset) for path in self._assets)]
        return Guarded(Starlette(routes=all_routes, exception_handlers=handlers), list(hosts))

    @abstractmethod
    def error_page(self, request: Request, status: int, message: str) -> Response:
        """The page of an error, for a visitor."""

    async def thumbnail(self, request: Request, key: Hashable) -> Response:
        """The picture of ``key`` as WebP. Raises HTTPException 404 where there is none."""
        try:
            webp = await self.in_turn(request, self._decoders, self._thumbnail, key)
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        return Response(webp, media_type="image/webp")

    async def in_turn(
        self, request: Request, limiter: anyio.CapacityLimiter, work: Callable[..., Any], *arguments: Any
    ) -> Any:
        """``work`` of the arguments, in a thread, when the request's turn comes. Raises HTTPException 503 where it does
        not come in time or too many wait, and ClientDisconnect where nobody waits for it any more."""
        busy = later(503, "too many others wait; try again in a moment")
        if limiter.statistics().tasks_waiting >= WAITING:
            raise busy
        try:
            with anyio.fail_after(TURN_SECONDS):
                await limiter.acquire()
        except TimeoutError:
            raise busy from None
        try:
            if await request.is_disconnected():
                raise ClientDisconnect
            return await anyio.to_thread.run_sync(work, *arguments)
        finally:
            limiter.release()

    async def _asset(self, request: Request) -> Response:
        content, media_type = self._assets[request.url.path]
        return Response(content, media_type=media_type)

    async def _refused(self, request: Request, error: PipelineError) -> Response:
        """Status 400 for an error of the visitor, 503 with a warning for an error of this installation."""
        if isinstance(error, UsageError | InputError):
            return self._error(request, 400, str(error))
        warn(str(error))
        return self._error(request, 503, str(error))

    async def _failed(self, request: Request, error: HTTPException) -> Response:
        response = self._error(request, error.status_code, error.detail)
        response.headers.update(error.headers or {})
        return response

    async def _disconnected(self, request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    async def _crashed(self, request: Request, error: Exception) -> Response:
        return self._error(request, 500, self._failure)

    def _error(self, request: Request, status: int, message: str) -> Response:
        if request.url.path.startswith(self._data):
            return JSONResponse({"error": message}, status)
        return self.error_page(request, status, message)


def later(status: int, message: str) -> HTTPException:
    """An error that asks the client to try again."""
    return HTTPException(status, message, {"Retry-After": "2"})


def is_of_this_site(request: Request) -> bool:
    """Does the form come from this site? Old browsers send only Origin; programs that are no browser send nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2].lower() == request.headers["host"].lower()
