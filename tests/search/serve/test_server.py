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

from tests.command_line import caller, failure, output
from tests.search.serve.standin import StandIn, served
from tests.toy_project import write_params
from vse_pipe.core.errors import UsageError
from vse_pipe.search import server
from vse_pipe.search.app import create

HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
PHOTO = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 99\r\n\r\n--b"


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_listen_on_ipv6():
    try:
        with server.listen("::1", 0) as listening:
            assert server.address(listening).startswith("http://[::1]:")
    except UsageError:
        pytest.skip("this machine has no address ::1")


def test_accepted_hosts_and_private_addresses():
    local = ["localhost", "127.0.0.1", "[::1]"]
    assert (server.accepted_hosts("127.0.0.1", "127.0.0.1"), server.accepted_hosts("::1", "::1")) == (local, local)
    assert server.accepted_hosts("Box", "192.168.1.20") == [*local, "box", "192.168.1.20"]
    everywhere = server.accepted_hosts("0.0.0.0", "0.0.0.0")
    assert (socket.gethostname().lower() in everywhere, "*" in everywhere) == (True, False)
    private, others = ("127.0.0.1", "127.9.9.9", "::1"), ("0.0.0.0", "::", "192.168.1.20", "8.8.8.8")
    assert tuple(one for one in private + others if server.is_private(one)) == private
    for host in ("203.0.113.7", "no such.name"):
        with pytest.raises(UsageError, match=f"cannot listen on --host {host}"):
            server.listen(host, 0)


@pytest.fixture
def project(tmp_path, monkeypatch):
    write_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(monkeypatch, project, capsys):
    return caller(monkeypatch, capsys, "serve")


def test_a_missing_package_wrong_usage_and_a_taken_port_have_their_status(call, monkeypatch):
    for arguments in (("--run", "no"), ("--inference", "no"), ("--host", "203.0.113.7"), ("--port", "70000")):
        status, out, err = call(*arguments)
        assert (status, out) == (2, ""), err
    with server.listen("127.0.0.1", 0) as listening:
        err = failure(call, 1, "--port", listening.getsockname()[1])
    assert (err.startswith("error: cannot listen"), err.count("\n")) == (True, 1)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "vse-pipe serve needs the package uvicorn, which is not installed: pip install " in failure(call, 4)


def test_ctrl_c_ends_it_with_status_130_after_the_search_under_way(project):
    with served(project, "--inference", "nns,csls", seconds=0.2) as (url, process):
        run, counts = process.said.splitlines()[:-1]
        assert (run, counts) == ("run sum: the only run", "run sum under nns, csls, split test: 5 images, 5 captions")
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
    assert (answers, process.returncode, out) == ([200], 130, "")
    assert err.count("Traceback") == 1  # of the planted failure, which the page does not show
    assert err.endswith("RuntimeError: a planted failure\ninterrupted\n")


def test_a_host_that_others_reach_is_warned_about(call, project, monkeypatch):
    """With the stand-in engine, and nothing is answered."""

    def opened(params, run, inference, split, device):
        return StandIn(project / "pictures", inference, run, split)

    real = types.SimpleNamespace(Engine=types.SimpleNamespace(open=opened), TO_IMAGES="text_to_image")
    monkeypatch.setitem(sys.modules, "vse_pipe.search.engine", real)
    monkeypatch.setattr(server, "serve", lambda app, listening: None)
    out, err = output(call, "--port", "0", "--run", "sum", "--split", "val")
    said = "run sum under nns, split val: 5 images, 5 captions\nsearching at http://127.0.0.1:\\d+/ until Ctrl-C\n"
    assert (out, bool(re.fullmatch(said, err))) == ("", True), err
    out, err = output(call, "--port", "0", "--host", "0.0.0.0")
    assert (out, "warning: anyone who reaches 0.0.0.0 port " in err) == ("", True)
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
        own = lambda self: running.append(self) or contextlib.nullcontext()  # noqa: E731
        monkeypatch.setattr(uvicorn.Server, "capture_signals", own)
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


def status(client: socket.socket) -> int:
    return int(client.recv(1000).split()[1])


def test_one_too_many_is_told_to_come_again(connect, monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS", 3)
    idle = [connect(HEAD), connect(PHOTO)]
    assert status(connect(HEAD + b"\r\n")) == 503
    idle[0].sendall(b"\r\n")
    assert status(idle[0]) == 200
