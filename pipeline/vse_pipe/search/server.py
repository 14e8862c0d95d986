"""The listening socket, and the guard before the application."""

import errno
import ipaddress
import socket

import uvicorn
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vse_pipe.core.errors import PipelineError, UsageError

# Maximum connections; most systems allow a process 1,024 open files.
CONNECTIONS = 800
# The only script fetches further results; data: is the preview of an uploaded photo.
POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # No referrer for other sites. With no-referrer a browser would send the page's own form with
    # "Origin: null".
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

    port: 0 for any free port. Raises UsageError for a host that this machine does not have,
    PipelineError for a port in use or not allowed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except (OSError, UnicodeError) as error:
        is_of_port = getattr(error, "errno", None) in (errno.EADDRINUSE, errno.EACCES)
        reason = getattr(error, "strerror", None) or error
        raise (PipelineError if is_of_port else UsageError)(
            f"cannot listen on --host {host} --port {port}: {reason}; --port 0 takes any free port"
        ) from error


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{_bracketed({'0.0.0.0': '127.0.0.1', '::': '::1'}.get(host, host))}:{port}/"  # noqa: S104


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM; running requests get three seconds to end. Raises
    KeyboardInterrupt."""
    config = uvicorn.Config(
        app,
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
    """``app`` behind the check of the Host header and with HEADERS on each response, error pages
    included.

    A page of another site can make its own name resolve to 127.0.0.1 (DNS rebinding) and then read
    the answers. Its requests carry that name, which is not among ``hosts``."""

    def __init__(self, app: ASGIApp, hosts: list[str]) -> None:
        self._app = TrustedHostMiddleware(app, allowed_hosts=hosts, www_redirect=False)
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), *self._headers]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_guarded)


def accepted_hosts(host: str, bound: str) -> list[str]:
    """Accepted names in the Host header. host: value of --host; bound: the address of the socket.

    If ``bound`` means every address of the machine, its name and addresses are accepted too."""
    names = [*LOOPBACK, _bracketed(host), _bracketed(bound)]
    if ipaddress.ip_address(bound).is_unspecified:
        name = socket.gethostname()
        names += [name, *_addresses(name)]
    return list(dict.fromkeys(name.lower() for name in names))


def is_private(bound: str) -> bool:
    """Can only this machine reach the address?"""
    return ipaddress.ip_address(bound).is_loopback


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _addresses(name: str) -> list[str]:
    try:
        entries = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror:
        return []  # no resolver knows the machine's name
    return [_bracketed(str(entry[-1][0])) for entry in entries]
