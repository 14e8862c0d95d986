"""Fetch a weights file: whole and checked, or not at all."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from vse_pipe.core.console import say, track
from vse_pipe.core.errors import IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.core.whole import whole_file

_CHUNK = 2**20
_TIMEOUT_S = 30.0


def fetch(url: str, path: Path, expected: str) -> None:
    """Download ``url`` to ``path``. expected: the first digits, or all, of the file's sha256.

    Raises MissingResource with everything needed to fetch it by hand; IntegrityError when something else came.
    """
    say(f"downloading {url} to {path}")
    with whole_file(path) as temporary:
        with temporary.open("wb") as file:
            for chunk in _chunks(url, path, expected):
                file.write(chunk)
        if not (found := sha256(temporary)).startswith(expected):
            raise IntegrityError(f"{url}: what came has sha256 {found}, expected {expected}; it was not kept")


def _chunks(url: str, path: Path, expected: str) -> Iterator[bytes]:
    # Only errors of reading become MissingResource: a full disk is not the network's fault.
    try:
        with open_url(url) as response:
            size = int(response.headers.get("Content-Length") or 0)
            received = 0
            for chunk in track(iter(lambda: response.read(_CHUNK), b""), max(1, -(-size // _CHUNK)), path.name):
                received += len(chunk)
                yield chunk
            if size and received != size:
                raise http.client.IncompleteRead(b"", size - received)
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise MissingResource(
            f"cannot download {url} ({reason}); fetch it by hand (sha256 {expected}) and put it at {path.absolute()}"
        ) from error


def open_url(url: str):
    """The one place that touches the network."""
    if not url.startswith("https://"):
        raise UsageError(f"{url}: only https is downloaded")
    request = urllib.request.Request(url, headers={"User-Agent": "vse-pipe"})  # noqa: S310 (https, checked above)
    return urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
