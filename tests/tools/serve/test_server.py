"""The socket, the command as a process, and connections under limits so small that a test meets them."""

import contextlib
import json
import re
import signal
import socket
import sys
import threading
import time
import types
import urllib.error
import urllib.request

import pytest
import uvicorn

from tests.command_line import caller
from tests.tools.serve.standin import StandIn, served
from tests.toy_project import write_params
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.tools.serve import server
from vse_pipe.tools.serve.app import create

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PHOTO = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 99\r\n\r\n--b"


def test_listen_on_a_port_that_is_free():
    with server.listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert server.address(listening) == f"http://127.0.0.1:{port}/"
    with server.listen("localhost", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
    with server.listen("0.0.0.0", 0) as listening:
        assert server.address(listening).startswith("http://127.0.0.1:")
    with server.listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(PipelineError) as refused:
            server.listen("127.0.0.1", port)
    assert str(refused.value) == (
        f"port {port} of 127.0.0.1 is taken; end what uses it, or choose another with --port (0: any free one)"
    )
    assert refused.value.exit_status == 1


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_listen_on_ipv6():
    try:
        listening = server.listen("::1", 0)
    except UsageError:
        pytest.skip("this machine has no address ::1")
    with listening:
        assert server.address(listening).startswith("http://[::1]:")


@pytest.mark.parametrize(
    ("host", "message"),
    [("203.0.113.7", "this machine does not have that address"), ("no such.name", "no address of that name")],
)
def test_a_host_that_is_not_here(host, message):
    with pytest.raises(UsageError, match=message):
        server.listen(host, 0)


def test_accepted_hosts_and_private_addresses():
    local = ["localhost", "127.0.0.1", "[::1]"]
    assert server.accepted_hosts("127.0.0.1", "127.0.0.1") == local
    assert server.accepted_hosts("::1", "::1") == local
    assert server.accepted_hosts("Box", "192.168.1.20") == [*local, "box", "192.168.1.20"]
    everywhere = server.accepted_hosts("0.0.0.0", "0.0.0.0")
    assert socket.gethostname().lower() in everywhere
    assert "*" not in everywhere
    assert [server.is_private(one) for one in ("127.0.0.1", "127.9.9.9", "::1")] == [True] * 3
    assert [server.is_private(one) for one in ("0.0.0.0", "::", "192.168.1.20", "8.8.8.8")] == [False] * 4


@pytest.fixture
def project(tmp_path):
    write_params(tmp_path)
    return tmp_path


@pytest.fixture
def call(monkeypatch, project, capsys):
    monkeypatch.chdir(project)
    return caller(monkeypatch, capsys)


def test_a_missing_package_wrong_usage_and_a_taken_port_have_their_status(call, monkeypatch):
    for arguments in (("--run", "no"), ("--inference", "no"), ("--host", "203.0.113.7"), ("--port", "70000")):
        status, out, err = call("serve", *arguments)
        assert (status, out) == (2, ""), err
    with server.listen("127.0.0.1", 0) as listening:
        status, out, err = call("serve", "--port", listening.getsockname()[1])
    assert (status, out) == (1, "")
    assert err.startswith("error: port ")
    assert err.count("\n") == 1
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert call("serve") == (
        4, "", "error: vse-pipe serve needs uvicorn, which is not installed: pip install 'vse-pipe[serve]'\n",
    )  # fmt: skip


def test_ctrl_c_ends_it_with_status_130_after_the_search_under_way(project):
    with served(project, "--inference", "nns,csls", seconds=0.5) as (url, process):
        assert process.said.splitlines()[:-1] == [
            "run sum: the only run",
            "run sum under nns, csls, split test: 5 images, 5 captions",
        ]
        with urllib.request.urlopen(f"{url}api/search?text=blue&k=1&inference=csls") as answer:
            assert json.load(answer)["hits"][0]["image_id"] == 27
            assert "server" not in answer.headers
        for path, status in (("nothing", 404), ("?text=crash", 500)):
            with pytest.raises(urllib.error.HTTPError, match=str(status)) as refused:
                urllib.request.urlopen(url + path)
            refused.value.close()
        asked = project / "pictures" / "asked"
        asked.unlink()
        answers = []
        search = threading.Thread(target=lambda: answers.append(urllib.request.urlopen(f"{url}?text=red").status))
        search.start()
        while not asked.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        search.join()
    assert answers == [200]
    assert (process.returncode, out) == (130, "")
    assert err.count("Traceback") == 1  # of the planted failure, which the page does not show
    assert err.endswith("RuntimeError: a planted failure\ninterrupted\n")


@pytest.fixture
def said(call, project, monkeypatch):
    """What the command says with the stand-in engine before it would answer requests; returns (status, stderr)."""

    class Engine:
        @staticmethod
        def open(params, run, inference, split, device):
            return StandIn(project / "pictures", inference, run, split)

    real = types.SimpleNamespace(Engine=Engine, TO_IMAGES="text_to_image")
    monkeypatch.setitem(sys.modules, "vse_pipe.tools.search.engine", real)
    monkeypatch.setattr(server, "serve", lambda app, listening: None)

    def run(*arguments: str) -> tuple[int, str]:
        status, out, err = call("serve", "--port", "0", *arguments)
        assert out == ""
        return status, err

    return run


def test_a_host_that_others_reach_is_warned_about(said):
    status, err = said("--run", "sum", "--split", "val")
    assert status == 0
    assert re.fullmatch(
        r"run sum under nns, split val: 5 images, 5 captions\nsearching at http://127.0.0.1:\d+/ until Ctrl-C\n", err
    )
    status, err = said("--host", "0.0.0.0")
    assert status == 0
    assert "warning: anyone who reaches 0.0.0.0 port " in err
    assert "can search and see the pictures; the page answers under the names localhost, " in err


@pytest.fixture
def engine(tmp_path) -> StandIn:
    return StandIn(tmp_path / "pictures")


@pytest.fixture
def connect(engine, monkeypatch):
    """Connections to a server that is started by the first of them; the limits of ``server`` may be set before."""
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
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    started = time.monotonic()
    assert closed(connect(content))
    assert 0.1 < time.monotonic() - started < 5


def test_who_goes_on_sending_after_the_answer_is_closed_too(connect, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 0.2)
    client = connect(HEAD + b"Content-Length: 9999\r\n\r\n")
    assert status(client) == 200
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        for _ in range(100):
            client.sendall(b"x")
            time.sleep(0.05)


def test_an_answer_may_take_longer_than_its_request(connect, engine, monkeypatch):
    monkeypatch.setattr(server, "PATIENCE", 0.1)
    engine.seconds = 0.4
    client = connect(b"GET /?text=red HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert status(client) == 200


@pytest.mark.parametrize("limit", ["ALL", "EACH"])
@pytest.mark.parametrize("content", [b"", HEAD, PHOTO, HEAD + b"\r\n"])
def test_one_too_many_closes_that_which_has_waited_longest(connect, monkeypatch, capfd, limit, content):
    monkeypatch.setattr(server, "_GRACE", 0.0)
    monkeypatch.setattr(server, limit, 2)
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
    monkeypatch.setattr(server, "EACH", 2)
    clients = [connect() for _ in range(6)]
    for client in clients:
        client.sendall(HEAD + b"\r\n")
    assert [status(client) for client in clients] == [200] * 6


def test_where_all_places_are_taken_by_a_crowd_the_next_is_closed(connect, monkeypatch):
    monkeypatch.setattr(server, "ALL", 2)
    first, second, third = (connect() for _ in range(3))
    assert closed(third)
    for client in (first, second):
        client.sendall(HEAD + b"\r\n")
        assert status(client) == 200
