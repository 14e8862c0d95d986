"""Searches as JSON, the pictures, what a request may ask for, who is answered, and how much is read."""

import io
import json
import struct
import threading
import time
import zlib
from dataclasses import asdict

import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.search.serve.standin import photo
from vse_pipe.core.errors import MissingResource
from vse_pipe.search.app import MAX_UPLOAD, create
from vse_pipe.search.query import Limits


def test_a_search_is_the_engines_answer(client, engines):
    answer = client.get("/api/search", params={"text": "green", "k": "2", "inference": "csls"})
    told, ours = answer.json(), json.loads(json.dumps(asdict(engines["csls"].by_text("green", 2))))
    more = {"chosen": "as asked", "split": "test", "direction": "text_to_image", "searched": 5, "left_out": {}}
    assert (answer.status_code, told) == (200, {**ours, **more, "correction": {}, "offset": 0, "next": 2})
    assert [hit["image_id"] for hit in told["hits"]] == [17, 7]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/search", 400, "search for what? give text, image_id, or POST a photo"),
        ("/api/search?image_id=99", 400, "image 99 is not in the test split"),
        ("/api/nothing", 404, "Not Found"),
        ("/picture/99", 404, "no image_id 99"),
        ("/picture/47", 404, "no picture of 47"),
        ("/picture/..%2f..%2fetc%2fpasswd", 404, "Not Found"),
    ],
)
def test_errors_are_json(client, path, status, message):
    answer = client.get(path)
    assert (answer.status_code, answer.json()) == (status, {"error": message})


def test_pictures_and_health_and_no_other_method(client):
    answer = client.get("/picture/7")
    assert answer.headers["content-type"] == "image/webp"
    with Image.open(io.BytesIO(answer.content)) as opened:
        assert opened.size == (400, 267)
        red, green, _ = opened.convert("RGB").getpixel((5, 5))
        assert red > 180 > 60 > green
    said = {"status": "ok", "run": "toy", "split": "test", "inferences": ["nns", "csls"], "images": 5, "captions": 5}
    assert client.get("/health").json() == said
    answer = client.delete("/api/search")
    assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "POST"})
    assert client.post("/health").status_code == 405


NARROW = {"offset": "20", "to": "captions"}


def test_fields_reach_the_engine_and_empty_ones_do_not_count(client, engines):
    conditions = {"where": [" split=test ", "width=3"]}
    assert client.get("/api/search", params={"text": " blue ", **NARROW, **conditions}).status_code == 200
    assert engines["nns"].calls == [("text", "blue", 11)]
    assert engines["nns"].wanted == Limits(11, "captions", ("split=test", "width=3"), 20)
    client.get("/api/search", params={"text": "blue", "k": "", "where": "", **dict.fromkeys(NARROW, "")})
    assert engines["nns"].wanted == Limits(11)


@pytest.mark.parametrize(
    "asked",
    [
        {"txt": "x"},
        {"text": "x" * 1001},
        {"text": "x", "k": "101"},
        {"text": "x", "inference": "is"},
        {"text": "x", "image_id": "1"},
        {"text": "x", "to": "videos"},
        {"text": "x", "where": "w" * 1001},
    ],
)
def test_a_wrong_value_is_named_in_one_line(client, engines, asked):
    answer = client.get("/api/search", params=asked)
    name, message = list(asked)[-1], answer.json()["error"]
    assert (answer.status_code, name in message, "\n" in message, engines["nns"].calls) == (400, True, False, [])


def header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has no pixels."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", b"")]
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>not a picture</html>", "is no image in a known format"),
        (header(30, 20), "does not decode"),
        (header(60_000, 60_000), "has too many pixels"),
    ],
)
def test_an_upload_that_is_no_picture_is_refused(client, content, message):
    for path in ("/", "/api/search"):
        answer = client.post(path, files={"photo": ("x.jpg", content)})
        assert (answer.status_code, message in answer.text) == (400, True)


HERE = ["127.0.0.1:8000", "localhost", "[::1]:9", "LOCALHOST:8000"]
ELSEWHERE = ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", ""]


@pytest.mark.parametrize("host", HERE + ELSEWHERE)
def test_only_requests_to_this_machines_names_are_answered(client, engines, host):
    answer = client.get("/api/search?text=red", headers={"host": host})
    assert (answer.status_code, len(engines["nns"].calls)) == ((200, 1) if host in HERE else (400, 0))


def check_headers(answer):
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; img-src 'self' data:; style-src 'self'; ")
    assert ("unsafe" in policy, "script-src 'self';" in policy) == (False, True)
    wanted = {"x-content-type-options": "nosniff", "referrer-policy": "same-origin", "cache-control": "no-store"}
    assert {name: answer.headers[name] for name in wanted} == wanted


PATHS = ["/", "/?text=red", "/?k=0", "/nothing", "/picture/7", "/api/search?text=red", "/style.css", "/icon.svg"]


def test_every_response_carries_the_headers(client):
    for path in PATHS:
        check_headers(client.get(path))
    check_headers(client.get("/", headers={"host": "evil.example"}))
    for path in ("/?text=crash", "/api/search?text=crash"):
        answer = client.get(path)
        assert (answer.status_code, "planted" in answer.text) == (500, False)
        assert "the search failed; the terminal of vse-pipe serve says why" in answer.text
        check_headers(answer)


def test_what_the_owner_can_mend_is_said_on_the_page_and_in_the_terminal(client, engines, monkeypatch, capsys):
    def fail(*arguments):
        raise MissingResource("model.safetensors does not exist; make it with `vse-pipe train`")

    monkeypatch.setattr(engines["nns"], "ask", fail)
    for path in ("/?text=red", "/api/search?text=red"):
        answer, err = client.get(path), capsys.readouterr().err
        assert (answer.status_code, err.startswith("warning: model.safetensors does not exist")) == (503, True)
        assert "model.safetensors does not exist; make it with `vse-pipe train`" in answer.text


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("sec-fetch-site", "cross-site", 403),
        ("sec-fetch-site", "same-origin", 200),
        # Older browsers say by it alone where a form is from.
        ("origin", "http://127.0.0.1:8000", 200),
        ("origin", "https://127.0.0.1:8000", 200),  # behind a server that speaks TLS
        ("origin", "http://evil.example", 403),
        ("origin", "http://127.0.0.1:8001", 403),
        ("origin", "null", 403),
        ("origin", "", 403),
    ],
)
def test_a_form_of_another_site_is_refused(client, engines, name, value, status):
    assert client.post("/", files={"photo": ("x.jpg", photo())}, headers={name: value}).status_code == status
    assert len(engines["nns"].calls) == (status == 200)


def test_a_broken_upload_is_status_400(client):
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/", content=b"--y garbage", headers=kind).status_code == 400
    assert client.post("/", content=b"k=3").status_code == 400


def test_an_upload_states_its_length_and_has_a_limit(client, engines):
    photo = {"photo": ("x.jpg", bytes(MAX_UPLOAD))}
    assert client.post("/", files=photo).status_code == 413
    for length, status in ((str(MAX_UPLOAD + 1), 413), ("-1", 411), ("many", 411)):
        assert client.post("/", content=b"", headers={"content-length": length}).status_code == status
    assert client.post("/", content=iter([b"in", b"pieces"])).status_code == 411
    assert engines["nns"].calls == []


def test_the_page_stays_responsive_and_the_engine_serves_one_at_a_time(engines):
    engine = engines["nns"]
    engine.gate = threading.Event()
    with TestClient(create(engines), base_url="http://localhost") as client:
        searches = [threading.Thread(target=client.get, args=("/?text=red",)) for _ in range(3)]
        for search in searches:
            search.start()
        while not engine.busy:
            time.sleep(0.005)
        assert (client.get("/health").status_code, client.get("/picture/7").status_code) == (200, 200)
        assert len(engine.calls) == 1
        engine.gate.set()
        for search in searches:
            search.join()
    assert (len(engine.calls), engine.most_busy) == (3, 1)
