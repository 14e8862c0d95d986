"""uvicorn under limits so small that a test meets them."""

import contextlib
import socket
import threading
import time

import pytest
import uvicorn

from tests.tools.serve.standin import StandIn
from vse_pipe.tools.serve import connections, server
from vse_pipe.tools.serve.app import create

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PHOTO = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 99\r\n\r\n--b"


@pytest.fixture
def engine(tmp_path) -> StandIn:
    return StandIn(tmp_path / "pictures")


@pytest.fixture
def connect(engine, monkeypatch):
    """Connections to a server that is started by the first of them; the limits of ``connections`` may be set before."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(server.listen("127.0.0.1", 0))
        running: list[uvicorn.Server] = []
        monkeypatch.setattr(
            uvicorn.Server, "capture_signals", lambda self: running.append(self) or contextlib.nullcontext()
        )
        thread = threading.Thread(target=server.serve, args=(create({"nns": engine}), listening))
        address = listening.getsockname()

        def to(content: bytes = b"") -> socket.socket:
            if not thread.is_alive():
                thread.start()
            client = stack.enter_context(socket.create_connection(address, timeout=10))
            client.sendall(content)
            return client

        yield to
        if running:
            running[0].should_exit = True
            thread.join()


def closed(client: socket.socket) -> bool:
    """Reads until the server hangs up; raises TimeoutError where it does not."""
    with contextlib.suppress(ConnectionResetError):
        while client.recv(1000):
            pass
    return True


def status(client: socket.socket) -> int:
    return int(client.recv(1000).split()[1])


@pytest.mark.parametrize("content", [b"", HEAD])
def test_a_head_that_does_not_come_closes_the_connection(connect, monkeypatch, content):
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    started = time.monotonic()
    assert closed(connect(content))
    assert 0.1 < time.monotonic() - started < 5


def test_who_goes_on_sending_after_the_answer_is_closed_too(connect, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    client = connect(HEAD + b"Content-Length: 9999\r\n\r\n")
    assert status(client) == 200
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        for _ in range(100):
            client.sendall(b"x")
            time.sleep(0.05)


def test_an_answer_may_take_longer_than_its_request(connect, engine, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 0.1)
    engine.seconds = 0.4
    client = connect(b"GET /?text=red HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert status(client) == 200


@pytest.mark.parametrize("limit", ["ALL", "EACH"])
@pytest.mark.parametrize("content", [b"", HEAD, PHOTO, HEAD + b"\r\n"])
def test_one_too_many_closes_that_which_has_waited_longest(connect, monkeypatch, capfd, limit, content):
    monkeypatch.setattr(connections, "_GRACE", 0.0)
    monkeypatch.setattr(connections, limit, 2)
    first = connect(content)
    if content.endswith(b"\r\n\r\n"):
        assert status(first) == 200
    second = connect(HEAD)
    third = connect(HEAD + b"\r\n")
    assert status(third) == 200
    assert closed(first)
    second.sendall(b"\r\n")
    assert status(second) == 200
    assert capfd.readouterr() == ("", "")


def test_nothing_is_searched_for_who_has_left_the_line(connect, engine):
    search = b"GET /?text=red HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    engine.gate = threading.Event()
    first, second = connect(search), connect(search)
    # Each answer proves that the server has seen what came before it.
    assert status(connect(HEAD + b"\r\n")) == 200
    second.close()
    assert status(connect(HEAD + b"\r\n")) == 200
    engine.gate.set()
    assert status(first) == 200
    assert status(connect(search)) == 200
    assert len(engine.calls) == 2


def test_nobody_is_turned_out_for_coming_with_a_crowd(connect, monkeypatch):
    monkeypatch.setattr(connections, "EACH", 2)
    clients = [connect() for _ in range(6)]
    for client in clients:
        client.sendall(HEAD + b"\r\n")
    assert [status(client) for client in clients] == [200] * 6


def test_where_all_places_are_taken_by_a_crowd_the_next_is_closed(connect, monkeypatch):
    monkeypatch.setattr(connections, "ALL", 2)
    first, second, third = (connect() for _ in range(3))
    assert closed(third)
    for client in (first, second):
        client.sendall(HEAD + b"\r\n")
        assert status(client) == 200
