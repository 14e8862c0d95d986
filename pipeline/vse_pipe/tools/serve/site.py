"""What the pages of ``serve`` and ``review`` share: files, thumbnails, error answers, and turns of visitors."""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
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
from vse_pipe.tools.serve.server import Guarded

# Seconds in line, and places in line of one address.
TURN_SECONDS = 10.0
OF_ADDRESS = 64
# Pixels of a thumbnail: twice the width of a tile, for screens with two pixels to a point.
SIDE = 400
# About 3,000 thumbnails of that side.
CACHE_BYTES = 32 * 2**20
_TEMPLATES = Path(__file__).parent / "templates"
# Files of both pages, by their address.
SHARED = {"/style.css": _TEMPLATES / "style.css", "/icon.svg": _TEMPLATES / "icon.svg"}
_TYPES = {".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}


class Site(ABC):
    """The answers that both pages have in common. A subclass adds its routes and ``error_page``."""

    def __init__(self, assets: Mapping[str, Path], data: tuple[str, ...], failure: str) -> None:
        """assets: files by their address. data: beginnings of addresses whose errors are JSON. failure: the message
        after an unexpected error."""
        self._assets = {path: (file.read_text(encoding="utf-8"), _TYPES[file.suffix]) for path, file in assets.items()}
        self._data, self._failure = data, failure
        self._decoders = WaitingLine(2)

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

    async def thumbnail(self, request: Request, thumbnails: "Thumbnails", key: Hashable, name: str) -> Response:
        """The picture of ``key``; name: for the message. Raises HTTPException 404 where there is none."""
        try:
            webp = await self.in_turn(request, self._decoders, thumbnails.get, key)
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        if webp is None:
            raise HTTPException(404, f"no picture of {name}")
        return Response(webp, media_type="image/webp")

    async def in_turn(
        self, request: Request, line: "WaitingLine", work: Callable[..., Any], *arguments: Any, places: int = 1
    ) -> Any:
        """``work`` of the arguments, in a thread, when the request's turn comes. Raises as ``WaitingLine.turn``, and
        ClientDisconnect where nobody waits for it any more."""
        async with line.turn(address(request), places):
            if await request.is_disconnected():
                raise ClientDisconnect
            return await anyio.to_thread.run_sync(work, *arguments)

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


def address(request: Request) -> str:
    return request.client.host if request.client else ""


def later(status: int, message: str) -> HTTPException:
    """An error that asks the client to try again."""
    return HTTPException(status, message, {"Retry-After": "2"})


def is_of_this_site(request: Request) -> bool:
    """Does the form come from this site? Old browsers send only Origin; programs that are no browser send nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2].lower() == request.headers["host"].lower()


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


class Thumbnails:
    """A cache of WebP thumbnails, at most ``budget`` bytes of the last used ones. For several threads at
    once."""

    def __init__(self, find: Callable[[Any], bytes | None], budget: int = CACHE_BYTES, side: int = SIDE) -> None:
        """find: returns the content of a picture, or None. side: pixels."""
        self._find, self._budget, self._side = find, budget, side
        self._cache: OrderedDict[Hashable, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> bytes | None:
        """The thumbnail of the picture that ``find`` gives for ``key``; None without a readable picture."""
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        content = self._find(key)
        webp = thumbnail(content, self._side) if content is not None else None
        if webp is not None:
            with self._lock:
                if key not in self._cache:
                    self._cache[key] = webp
                    self._bytes += len(webp)
                while self._bytes > self._budget:
                    _, oldest = self._cache.popitem(last=False)
                    self._bytes -= len(oldest)
        return webp
