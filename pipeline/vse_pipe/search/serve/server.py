"""The listening socket, and the guard before the application."""

import errno
import ipaddress
import socket
from typing import Any

import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vse_pipe.core.errors import PipelineError, UsageError

# Maximum connections; most systems allow a process 1,024 open files.
CONNECTIONS = 800
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
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[listening])


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
