"""The form with a photo: who may send it, how large it may be and how long it may take."""

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from vse_pipe.core.errors import UsageError
from vse_pipe.tools.serve.line import later
from vse_pipe.tools.serve.query import MAX_UPLOAD

# Seconds from the head of the request to the end of the photo: 20 MB at 1.3 Mbit/s.
PATIENCE = 120.0
# Bytes of all uploads that are under way.
TOGETHER = 20 * MAX_UPLOAD
_TOO_LARGE = f"the upload is too large: {MAX_UPLOAD // 10**6} MB are the most"


class Uploads:
    """Of one server."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, request: Request) -> tuple[list[tuple[str, str]], bytes]:
        """The plain fields of a form and the content of its field ``photo``. Raises UsageError, HTTPException."""
        if not _of_this_site(request):
            raise HTTPException(403, "forms of other sites are not answered")
        declared = request.headers.get("content-length", "0")
        if not declared.isascii() or not declared.isdigit() or int(declared) > MAX_UPLOAD:
            raise HTTPException(413, _TOO_LARGE)
        size = 0

        async def receive() -> Message:
            nonlocal size
            message = await request.receive()
            more = len(message.get("body", b""))
            size += more
            self._held += more
            if size > MAX_UPLOAD:
                raise HTTPException(413, _TOO_LARGE)
            if self._held > TOGETHER:
                raise later(503, "too many photos are being sent; try again in a moment")
            return message

        try:
            with anyio.fail_after(PATIENCE):
                return await _form(Request(request.scope, receive))
        except TimeoutError:
            raise HTTPException(408, f"the photo was not there after {PATIENCE:.0f} seconds") from None
        finally:
            self._held -= size


async def _form(request: Request) -> tuple[list[tuple[str, str]], bytes]:
    async with request.form(max_files=1, max_fields=8, max_part_size=10_000) as form:
        values, photo = [], b""
        for name, value in form.multi_items():
            if isinstance(value, str):
                values.append((name, value))
            elif name == "photo":
                photo = await value.read()
    if not photo:
        raise UsageError("choose a photo to search with (multipart/form-data, field photo)")
    return values, photo


def _of_this_site(request: Request) -> bool:
    """A browser says where a form was sent from, older ones by Origin alone, programs that are no browser not at all."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2].lower() == request.headers["host"].lower()
