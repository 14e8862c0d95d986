"""The listening socket, its connections, and the guard before the application."""

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

# Seconds from the connection or the last answer until a complete request head.
PATIENCE = 10.0
# Maximum connections of all addresses and of one address; most systems allow a process 1,024 open files.
ALL, EACH = 800, 400
# Seconds in which a new connection is not closed: its request may still be unread.
_GRACE = 1.0
# The only script fetches further results; data: is the preview of an uploaded photo.
POLICY = "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # No referrer for other sites. With no-referrer a browser would send the page's own form with "Origin: null".
    "Referrer-Policy": "same-origin",
    # Pages of other sites can neither embed the pictures nor access the window.
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    # The same address shows another data set when another run is served.
    "Cache-Control": "no-store",
}
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. It reserves the port before a model is loaded.

    port: 0 for any free port. Raises UsageError for a host that this machine does not have, PipelineError for a port in
    use or not allowed.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"--host {host}: no address of that name is known") from error
    # localhost has addresses of both families; every system has IPv4.
    family, kind, protocol, _, address = min(addresses, key=lambda info: info[0] != socket.AF_INET)
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
    host, port = listening.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}/"


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM; running requests get three seconds to end. Raises KeyboardInterrupt."""
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
    """uvicorn's connection with limits of time and number. uvicorn limits only the time between two requests.

    A connection beyond the limit closes the connection that has waited longest for its client, so slow clients cannot
    block others.
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
        """Does it wait for its client: for a request, or for the rest of a body?"""
        return not self._under_way() or self.cycle.more_body

    def _make_room(self) -> None:
        peers = [peer for peer in self.connections if isinstance(peer, Connection) and peer is not self]
        crowd = [peer for peer in peers if self.client and peer.client and self.client[0] == peer.client[0]]
        if len(crowd) < EACH:
            crowd = peers if len(peers) >= ALL else []
        before = self.loop.time() - _GRACE
        idle = [peer for peer in crowd if peer._waits() and peer._since < before]
        if idle:
            min(idle, key=lambda peer: peer._since).transport.abort()
        elif len(peers) >= ALL:
            self.transport.abort()


class Guarded:
    """``app`` behind the check of the Host header and with HEADERS on each response, error pages included.

    A page of another site can make its own name resolve to 127.0.0.1 (DNS rebinding) and then read the answers. Its
    requests carry that name, which is not among ``hosts``.
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
    """Accepted names in the Host header. host: value of --host; bound: the address of the socket.

    If ``bound`` means every address of the machine, the machine's name and its addresses are accepted too.
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
        return []  # no resolver knows the machine's name
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
