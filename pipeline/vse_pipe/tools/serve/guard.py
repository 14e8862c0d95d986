"""Who may ask, and what a browser may do with the answer: on every response, whoever made it."""

import ipaddress
import socket
from typing import Any

from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# One script of ours that fetches further results, nothing from anywhere else; data: is the preview of an uploaded photo.
POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Nothing for others; with none at all a browser would send the page's own form with "Origin: null".
    "Referrer-Policy": "same-origin",
    # Another site's page cannot embed the pictures, nor hold on to the window.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # The same address shows another data set when another run is served.
    "Cache-Control": "no-store",
}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Guarded:
    """``app`` behind the check of the Host header and with HEADERS on each response, error pages included.

    A page of another site can make its own name lead to 127.0.0.1 (DNS rebinding) and would then read the answers as
    its own; its requests carry that name, which is not among ``hosts``.
    """

    def __init__(self, app: ASGIApp, hosts: list[str]) -> None:
        self._app = TrustedHostMiddleware(app, allowed_hosts=hosts, www_redirect=False)
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *self._headers]}
            await send(message)

        await self._app(scope, receive, send_guarded)


def accepted_hosts(host: str, bound: str) -> list[str]:
    """The names a browser may have used to come here. host: as asked for; bound: the address listened on.

    Where that is every address of the machine, its own name and the addresses of that name are accepted too.
    """
    names = [*LOOPBACK, _bracketed(host), _bracketed(bound)]
    if ipaddress.ip_address(bound).is_unspecified:
        names += [socket.gethostname(), *_addresses(socket.gethostname())]
    return list(dict.fromkeys(name.lower() for name in names))


def is_private(bound: str) -> bool:
    """Can only this machine reach the address?"""
    return ipaddress.ip_address(bound).is_loopback


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _addresses(name: str) -> list[str]:
    try:
        found: list[Any] = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        # A machine whose name no resolver knows is still reached by its name's owner or by --host ADDRESS.
        return []
    return [_bracketed(address[0]) for *_, address in found]
