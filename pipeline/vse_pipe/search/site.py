"""What the pages of ``serve`` and ``review`` share: files, thumbnails and error answers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import anyio
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vse_pipe.core.console import warn
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.core.strict import in_words
from vse_pipe.report.pictures import thumbnail
from vse_pipe.search.server import Guarded

# Thumbnails in memory: of 400 pixels about 10 MB, of 900 pixels 60 MB.
THUMBNAILS = 1000
_TEMPLATES = Path(__file__).parent / "template"
# Files of both pages, by their address.
SHARED = {"/style.css": _TEMPLATES / "style.css", "/icon.svg": _TEMPLATES / "icon.svg"}
Model = TypeVar("Model", bound=BaseModel)


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
        """assets: files by their address. data: beginnings of addresses whose errors are JSON.
        failure: the message after an unexpected error. content: the bytes of a picture, None
        without one. side: pixels of thumbnails."""
        self._assets, self._data, self._failure = assets, data, failure
        self._decoders = anyio.CapacityLimiter(2)

        @lru_cache(THUMBNAILS)
        def small(key: Hashable) -> bytes:
            picture = content(key)
            webp = None if picture is None else thumbnail(picture, side)
            if webp is None:  # an exception is not cached: the picture may come
                raise InputError(f"no picture of {key}")
            return webp

        self._small = small

    def application(self, routes: Sequence[Route], hosts: Sequence[str]) -> ASGIApp:
        """The application with these routes and the assets. hosts: accepted names in the Host
        header."""
        handlers: dict[Any, Any] = {
            PipelineError: self._refused,
            HTTPException: self._failed,
            ClientDisconnect: self._disconnected,
            Exception: self._crashed,
        }
        routes = [*routes, *(Route(path, self._asset) for path in self._assets)]
        return Guarded(Starlette(routes=routes, exception_handlers=handlers), list(hosts))

    @abstractmethod
    def error_page(self, request: Request, status: int, message: str) -> Response:
        """The page of an error, for a visitor."""

    async def thumbnail(self, key: Hashable) -> Response:
        """The picture of ``key`` as WebP. Raises HTTPException 404 where there is none."""
        try:
            webp = await anyio.to_thread.run_sync(self._small, key, limiter=self._decoders)
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        return Response(webp, media_type="image/webp")

    async def _asset(self, request: Request) -> Response:
        return FileResponse(self._assets[request.url.path])

    async def _refused(self, request: Request, error: PipelineError) -> Response:
        """Status 400 for an error of the visitor, 503 with a warning for one of this machine."""
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


def checked(model: type[Model], values: Mapping[str, Any] | bytes) -> Model:
    """The values of a request, bytes of JSON or its fields. Raises UsageError for the first wrong
    one."""
    try:
        if isinstance(values, bytes):
            return model.model_validate_json(values)
        return model.model_validate(dict(values))
    except ValidationError as error:
        place, text = in_words(error)[0]
        raise UsageError(f"{'.'.join(map(str, place)) or 'the request'}: {text}") from error


def require_post(request: Request, most: int) -> None:
    """Raises HTTPException for a request of another site, without its length, or with more bytes
    than ``most``. Old browsers send only Origin; programs that are no browser send nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers["host"].lower()
    is_own = origin is None or origin.partition("://")[2].lower() == host
    if not (is_own if site is None else site in ("same-origin", "none")):
        raise HTTPException(403, "requests of other sites are not answered")
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        raise HTTPException(411, "a request states its length")
    if int(length) > most:
        raise HTTPException(413, f"the request is too large: {most:,} bytes are the most")
