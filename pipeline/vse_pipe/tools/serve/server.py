"""The listening socket, the connections to it and the guard before the application, until Ctrl-C."""

import asyncio
import errno
import ipaddress
import socket
from typing import Any

import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from vse_pipe.core.errors import PipelineError, UsageError

# Seconds without a whole request head, from the connection or the last answer on.
PATIENCE = 10.0
# Connections at once, of all addresses and of one; most systems allow a process 1,024 open files.
ALL, EACH = 800, 400
# Seconds in which nobody is turned out: of a crowd that comes at once the requests may lie unread.
_GRACE = 1.0
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


def listen(host: str, port: int) -> socket.socket:
    """A socket that holds the port from here on, so that a taken one is known before a model is loaded.

    port: 0 for any free one. Raises UsageError for a host that this machine does not have, PipelineError for a port
    that is taken or not allowed.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"--host {host}: no address of that name is known") from error
    # localhost stands for both families; every system has the older one.
    family, kind, protocol, _, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise _explained(error, host, port) from error
    return listening


def address(listening: socket.socket) -> str:
    """The page's address, for a person to open."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}/"


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM; those under way get three seconds to end. Raises KeyboardInterrupt."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[listening])


class Connection(H11Protocol):
    """uvicorn's, which limits the time between two requests, not that of a request or of an answer that nobody fetches.

    One connection more than is allowed closes that which has waited for its client the longest: a slow client costs
    nothing but its place, and takes nobody else's.
    """

    _since = 0.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self._under_way():
            self._stop_clock()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._under_way():
            self._await_request()

    def _await_request(self) -> None:
        self._stop_clock()
        self._since = self.loop.time()
        self._late = self.loop.call_later(PATIENCE, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def _under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _waits(self) -> bool:
        """For its client: for a request, or for the rest of a body."""
        return not self._under_way() or self.cycle.more_body

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        crowd = [one for one in others if self._neighbour(one)]
        if len(crowd) < EACH:
            crowd = others if len(others) >= ALL else []
        before = self.loop.time() - _GRACE
        idle = [one for one in crowd if one._waits() and one._since < before]
        if idle:
            min(idle, key=lambda one: one._since).transport.abort()
        elif len(others) >= ALL:
            self.transport.abort()

    def _neighbour(self, other: "Connection") -> bool:
        return self.client is not None and other.client is not None and self.client[0] == other.client[0]


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
        addresses: list[Any] = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        # A machine whose name no resolver knows is still reached by its name's owner or by --host ADDRESS.
        return []
    return [_bracketed(address[0]) for *_, address in addresses]


def _explained(error: OSError, host: str, port: int) -> PipelineError:
    if error.errno == errno.EADDRINUSE:
        return PipelineError(
            f"port {port} of {host} is taken; end what uses it, or choose another with --port (0: any free one)"
        )
    if error.errno == errno.EACCES:
        return PipelineError(f"port {port} needs more rights than this user has; ports from 1024 on do not")
    if error.errno == errno.EADDRNOTAVAIL:
        return UsageError(f"--host {host}: this machine does not have that address")
    return PipelineError(f"cannot listen on port {port} of {host}: {error.strerror}")
