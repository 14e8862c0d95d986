"""The listening socket and the loop that serves it until Ctrl-C."""

import errno
import socket

import uvicorn
from starlette.types import ASGIApp

from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.tools.serve.connections import Connection


def listen(host: str, port: int) -> socket.socket:
    """A socket that holds the port from here on, so that a taken one is known before a model is loaded.

    port: 0 for any free one. Raises UsageError for a host that this machine does not have, PipelineError for a port
    that is taken or not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"--host {host}: no address of that name is known") from error
    # localhost stands for both families; every system has the older one.
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
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
