"""Who is answered, how much is read, and what a browser is allowed with the answer."""

import asyncio
import threading
import time
from collections.abc import Callable

import anyio
import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from tests.tools.serve.test_page import photo
from vse_pipe.core.errors import MissingResource
from vse_pipe.tools.serve import app, requests
from vse_pipe.tools.serve.app import WaitingLine, create
from vse_pipe.tools.serve.requests import MAX_UPLOAD


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("[::1]:9", 200),
        ("LOCALHOST:8000", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost@evil.example", 400),
        ("", 400),
    ],
)
def test_only_requests_to_this_machines_names_are_answered(client, engines, host, status):
    answer = client.get("/api/search?text=red", headers={"host": host})
    assert answer.status_code == status
    assert len(engines["nns"].calls) == (status == 200)


def check_headers(answer):
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; img-src 'self' data:; style-src 'self'; ")
    assert "unsafe" not in policy
    assert "script-src 'self';" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"


def test_every_response_carries_the_headers(client):
    for path in (
        "/",
        "/?text=red",
        "/?k=0",
        "/nothing",
        "/picture/7",
        "/api/search?text=red",
        "/style.css",
        "/icon.svg",
    ):
        check_headers(client.get(path))
    check_headers(client.get("/", headers={"host": "evil.example"}))
    for path in ("/?text=crash", "/api/search?text=crash"):
        answer = client.get(path)
        assert answer.status_code == 500
        assert "the search failed; the terminal of vse-pipe serve says why" in answer.text
        assert "planted" not in answer.text
        check_headers(answer)


def test_what_the_owner_can_mend_is_said_on_the_page_and_in_the_terminal(client, engines, monkeypatch, capsys):
    def fail(*arguments):
        raise MissingResource("model.safetensors does not exist; make it with `vse-pipe train`")

    monkeypatch.setattr(engines["nns"], "ask", fail)
    for path in ("/?text=red", "/api/search?text=red"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert "model.safetensors does not exist; make it with `vse-pipe train`" in answer.text
        assert capsys.readouterr().err.startswith("warning: model.safetensors does not exist")


def test_a_form_of_another_site_is_refused(client, engines):
    def post(site: str) -> int:
        headers = {"sec-fetch-site": site}
        return client.post("/", files={"photo": ("x.jpg", photo())}, headers=headers).status_code

    assert [post(site) for site in ("cross-site", "same-site", "same-origin", "none")] == [403, 403, 200, 200]
    assert len(engines["nns"].calls) == 2


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", 200),
        ("https://127.0.0.1:8000", 200),  # behind a server that speaks TLS
        ("http://evil.example", 403),
        ("http://127.0.0.1:8001", 403),
        ("http://[", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_older_browsers_say_by_origin_alone_where_a_form_is_from(client, engines, origin, status):
    assert client.post("/", files={"photo": ("x.jpg", photo())}, headers={"origin": origin}).status_code == status
    assert len(engines["nns"].calls) == (status == 200)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"photo": ("x.jpg", b"not a picture")}, "the file is no picture that can be read"),
        ({"photo": ("", b"")}, "choose a photo to search with"),
        ({"other": ("x.jpg", b"12")}, "choose a photo to search with"),
        ([("photo", ("x.jpg", b"1")), ("photo", ("y.jpg", b"2"))], "Too many files"),
    ],
)
def test_uploads_that_are_refused(client, engines, files, message):
    for path in ("/", "/api/search"):
        answer = client.post(path, files=files)
        assert answer.status_code == 400
        assert message in answer.text
    assert engines["nns"].calls == []


def test_a_broken_upload_is_status_400(client):
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/", content=b"--y garbage", headers=kind).status_code == 400
    assert client.post("/", content=b"k=3").status_code == 400


def ask(app, headers: dict[str, str], chunk: bytes, instead: Callable | None = None) -> tuple[int, int]:
    """POST a photo that never ends, in chunks; the status, and how many chunks the application has taken.

    instead: what the server does in place of giving chunks.
    """
    taken = 0

    async def receive():
        nonlocal taken
        if instead:
            return await instead()
        taken += 1
        first = b"--b\r\ncontent-disposition: form-data; name=photo; filename=x\r\n\r\n"
        return {"type": "http.request", "body": first if taken == 1 else chunk, "more_body": taken < 50}

    sent = []

    async def send(message):
        sent.append(message)

    names = {"host": "localhost", "content-type": "multipart/form-data; boundary=b", **headers}
    scope = {
        "type": "http", "method": "POST", "path": "/api/search", "raw_path": b"/api/search", "root_path": "", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in names.items()], "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], taken


def test_uploads_have_limits_of_size_time_and_room(engines, monkeypatch):
    app, chunk = create(engines), bytes(MAX_UPLOAD // 4)
    assert ask(app, {"content-length": str(MAX_UPLOAD + 1)}, chunk) == (413, 0)
    assert ask(app, {"content-length": "-1"}, chunk) == (413, 0)
    assert ask(app, {"transfer-encoding": "chunked"}, chunk) == (413, 5)
    assert ask(app, {"content-length": "1000"}, chunk) == (413, 5)
    monkeypatch.setattr(requests, "UPLOAD_SECONDS", 0.05)
    assert ask(create(engines), {"content-length": "1000"}, b"", anyio.sleep_forever) == (408, 0)
    chunk = bytes(MAX_UPLOAD // 4)
    monkeypatch.setattr(requests, "TOGETHER", MAX_UPLOAD // 2)
    app = create(engines)
    # Twice: what the first took is free again.
    for _ in range(2):
        assert ask(app, {"content-length": "1000"}, chunk) == (503, 3)


def test_a_visitor_who_leaves_is_no_failure(engines):
    """An exception would end in the terminal with a traceback."""

    async def gone():
        return {"type": "http.disconnect"}

    assert ask(create(engines), {"content-length": "1000"}, b"", gone) == (400, 0)


def test_the_page_stays_responsive_and_the_engine_serves_one_at_a_time(engines):
    engine = engines["nns"]
    engine.gate = threading.Event()
    with TestClient(create(engines), base_url="http://localhost") as client:
        searches = [threading.Thread(target=client.get, args=("/?text=red",)) for _ in range(3)]
        for search in searches:
            search.start()
        while not engine.busy:
            time.sleep(0.005)
        assert client.get("/health").status_code == 200
        assert client.get("/picture/7").status_code == 200
        assert len(engine.calls) == 1
        engine.gate.set()
        for search in searches:
            search.join()
    assert len(engine.calls) == 3
    assert engine.most_busy == 1


AGAIN = {"Retry-After": "2"}


async def visit(one: WaitingLine, address: str, done: anyio.Event, told: list, places: int = 1):
    try:
        async with one.turn(address, places):
            await done.wait()
        told.append("answered")
    except HTTPException as error:
        told.append((error.status_code, error.headers))


def visited(*visitors: tuple[str, int], held: float = 0.0) -> list:
    """What they got, in the order in which it is known; the turns end ``held`` seconds after all have come."""

    async def run():
        one, done, told = WaitingLine(1), anyio.Event(), []
        async with anyio.create_task_group() as group:
            for address, places in visitors:
                group.start_soon(visit, one, address, done, told, places)
            await anyio.wait_all_tasks_blocked()
            await anyio.sleep(held)
            done.set()
        async with one.turn("late"):
            assert one._places == {"late": 1}
        return told

    return anyio.run(run)


@pytest.mark.parametrize("places", [1, 8])
def test_an_address_has_so_many_places_and_leaves_the_others_theirs(places):
    own = app.OF_ADDRESS // places
    assert visited(*[("loud", places)] * (own + 3), ("other", 1)) == [(429, AGAIN)] * 3 + ["answered"] * (own + 1)


def test_a_turn_that_does_not_come_is_status_503(monkeypatch):
    monkeypatch.setattr(app, "TURN_SECONDS", 0.05)
    assert visited(("first", 1), ("second", 1), held=0.1) == [(503, AGAIN), "answered"]
