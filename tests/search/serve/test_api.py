"""Searches as JSON, the pictures, what a request may ask for, who is answered, and how much is read."""

import asyncio
import io
import json
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from starlette.testclient import TestClient

from tests.search.serve.standin import photo, png
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.search.serve import requests, site
from vse_pipe.search.serve.app import create
from vse_pipe.search.serve.requests import MAX_K, MAX_TEXT, MAX_UPLOAD, Query, check_upload, read


def test_a_search_is_the_engines_answer(client, engines):
    answer = client.get("/api/search", params={"text": "green", "k": "2", "inference": "csls"})
    told, ours = answer.json(), json.loads(json.dumps(asdict(engines["csls"].by_text("green", 2))))
    more = {"chosen": "as asked", "split": "test", "direction": "text_to_image", "searched": 5, "left_out": {}}
    assert (answer.status_code, told) == (200, {**ours, **more, "correction": {}, "offset": 0, "next": 2})
    assert [hit["image_id"] for hit in told["hits"]] == [17, 7]


def test_a_search_by_image_id_and_by_photo(client, engines):
    assert client.get("/api/search", params={"image_id": "27"}).json()["hits"][0]["caption_id"] == 70
    answer = client.post("/api/search?k=1", files={"photo": ("x.jpg", photo())})
    assert (len(answer.json()["hits"]), answer.json()["direction"]) == (1, "image_to_text")
    assert [call[0] for call in engines["nns"].calls] == ["image_id", "photo"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/search", 400, "search for what? give text, image_id, or POST a photo"),
        ("/api/search?text=x&k=ten", 400, "k must be a whole number from 1 to 100, got 'ten'"),
        ("/api/search?image_id=99", 400, "image 99 is not in the test split"),
        ("/api/nothing", 404, "Not Found"),
        ("/picture/99", 404, "no image_id 99"),
        ("/picture/47", 404, "no picture of 47"),
        ("/picture/red.png", 400, "image_id must be a whole number, got 'red.png'"),
        ("/picture/..%2f..%2fetc%2fpasswd", 404, "Not Found"),
        ("/picture/", 404, "Not Found"),
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


SERVED, LEAST = ["csls", "nns"], {"to": "", "where": "", "group": "", "min_probability": ""}
NARROW = {"offset": "20", "to": "captions", "where": " width > 3 ", "group": "0.97", "min_probability": "1"}


@pytest.mark.parametrize(
    ("asked", "photo", "query"),
    [
        ({"text": "  two \n dogs "}, None, Query(10, "csls", text="two dogs")),
        ({"text": "x", "k": "100", "inference": "nns"}, None, Query(100, "nns", text="x")),
        ({"image_id": "-5", "k": "1"}, None, Query(1, "csls", image_id=-5)),
        ({"k": "3"}, b"jpeg", Query(3, "csls", photo=b"jpeg")),
        ({"text": "x", **NARROW}, None, Query(10, "csls", "x", None, None, 20, "captions", "width > 3", 0.97, 1.0)),
        ({"text": "x", **LEAST}, None, Query(10, "csls", text="x")),
        ({}, None, None),
        ({"k": "5", "inference": "nns"}, None, None),
    ],
)
def test_what_is_asked_with_the_defaults_for_the_rest(asked, photo, query):
    assert read([*asked.items()], SERVED, photo) == query


REFUSED = [
    ([("k", "0")], "k must be"),
    ([("text", " \t ")], "type a sentence to search with"),
    ([("text", "x" * (MAX_TEXT + 1))], "the sentence has 1,001 characters; 1,000 are the most"),
    ([("image_id", "9223372036854775808")], "image_id must be a whole number, got"),
    ([("image_id", "../7")], "image_id must be a whole number, got '../7'"),
    ([("txt", "x")], "unknown field 'txt'; did you mean 'text'? known: text, image_id, k, offset, "),
]
REFUSED += [
    ([("text", "x"), *one], message)
    for *one, message in [
        (("k", "101"), "k must be a whole number from 1 to 100, got '101'"),
        (("k", ""), "k must be a whole number from 1 to 100, got ''"),
        (("k", "1_0"), "k must be a whole number from 1 to 100, got '1_0'"),
        (("k", "\u0663"), "k must be a whole number"),
        (("k", "9" * 5000), "k must be a whole number from 1 to 100, got '" + "9" * 40 + "'"),
        (("inference", "is"), "inference 'is' is not served here; served: csls, nns"),
        (("image_id", "1"), "text and image_id exclude each other: ask for one of them"),
        (("text", "y"), "text is given twice"),
        (("offset", "-1"), "offset must be a whole number from 0 to 10000, got '-1'"),
        (("offset", "9" * 19), "offset must be a whole number from 0 to 10000"),
        (("to", "videos"), "to must be images or captions, got 'videos'"),
        (("group", "nan"), "group must be a cosine above 0 and at most 1, got 'nan'"),
        (("group", "0"), "group must be a cosine above 0 and at most 1, got '0'"),
        (("group", "-0.5"), "group must be a cosine above 0 and at most 1"),
        (("group", "1e-3"), "group must be a cosine above 0 and at most 1"),
        (("group", "0.9"), ("offset", "300"), "grouped, the first 300 results can be asked for"),
        (("min_probability", "1.5"), "min_probability must be a probability above 0 and at most 1, got '1.5'"),
        (("where", "w" * 1001), "the condition has 1,001 characters; 1,000 are the most"),
    ]
]


@pytest.mark.parametrize(("asked", "message"), REFUSED)
def test_wrong_values_are_named(asked, message):
    with pytest.raises(UsageError) as refused:
        read(asked, SERVED)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("name", ["text", "image_id"])
def test_a_photo_stands_alone(name):
    with pytest.raises(UsageError, match=f"a photo and {name} exclude each other"):
        read([(name, "1")], SERVED, b"jpeg")


FIELDS = ["text", "image_id", "k", "offset", "group", "to", "where", "min_probability", "K"]


@given(st.lists(st.tuples(st.sampled_from(FIELDS), st.text(max_size=8)), max_size=4))
def test_anything_is_a_query_within_the_limits_or_refused_in_one_line(pairs):
    query, refusal = None, ""
    try:
        query = read(pairs, SERVED)
    except UsageError as error:
        refusal = str(error)
    if query is None:
        assert refusal or {"text", "image_id"}.isdisjoint(name for name, _ in pairs)
        assert len(refusal.splitlines()) <= 1
    else:
        assert (1 <= query.k <= MAX_K, query.inference in SERVED) == (True, True)
        assert (query.text is None) != (query.image_id is None)


def test_ids_that_are_text_are_taken_as_they_are():
    assert read([("image_id", "beach/boat 1.jpg")], ["nns"], named=True).image_id == "beach/boat 1.jpg"
    with pytest.raises(UsageError, match="an image_id has at most 200 characters, this one 201"):
        read([("image_id", "x" * 201)], ["nns"], named=True)


def chunk(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has no pixels."""
    fields = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", fields) + chunk(b"IDAT")


def test_uploads_that_pass():
    check_upload(png(30, 20))


def in_pieces(kind: str, pieces: int) -> bytes:
    """A small picture in so many pieces that Pillow needs seconds for a million."""
    content = png(30, 20)
    if kind == "before the pixels":
        return content[:33] + chunk(b"abCd") * pieces + content[33:]
    if kind == "after the pixels":
        return content[:-12] + chunk(b"abCd") * pieces + content[-12:]
    return photo()[:2] + b"\xff" * pieces + photo()[2:]


PIECES = ["before the pixels", "after the pixels", "fillers of a JPEG"]


@pytest.mark.parametrize("kind", PIECES)
def test_an_upload_that_takes_long_to_decode_is_refused(monkeypatch, kind):
    check_upload(in_pieces(kind, 100))
    monkeypatch.setattr(requests, "DECODE_SECONDS", 0.05)
    with pytest.raises(InputError, match="takes more than"):
        check_upload(in_pieces(kind, 300_000))


def test_while_an_upload_is_read_others_are_answered(engines):
    content = in_pieces("fillers of a JPEG", 1_500_000)
    taken: list[float] = []

    def timed(method: Callable, path: str, **more: object) -> None:
        started = time.monotonic()
        assert method(path, **more).status_code == 200
        taken.append(time.monotonic() - started)

    with TestClient(create(engines), base_url="http://localhost") as client:
        files = {"photo": ("x", content)}
        upload = threading.Thread(target=timed, args=(client.post, "/api/search"), kwargs={"files": files})
        upload.start()
        while upload.is_alive():
            for path in ("/health", "/api/search?text=red"):
                timed(client.get, path)
    *others, longest = sorted(taken)
    assert len(others) > 4
    assert others[-1] < longest / 2  # else they waited for the upload


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no picture that can be read"),
        (b"<html>not a picture</html>", "is no picture that can be read; known: JPEG, PNG, "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no picture that can be read"),
        (header(30, 20), "is no picture that can be read"),
        (header(10_001, 5_000), "the picture has 50 megapixels; 50 are the most"),
        (header(12_000, 10_000), "megapixels"),
        (header(60_000, 60_000), "the picture is too large: 50 megapixels are the most"),
    ],
)
def test_uploads_that_do_not(content, message):
    with pytest.raises(InputError) as refused:
        check_upload(content)
    assert message in str(refused.value)


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
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 200),
        ("sec-fetch-site", "none", 200),
        # Older browsers say by it alone where a form is from.
        ("origin", "http://127.0.0.1:8000", 200),
        ("origin", "https://127.0.0.1:8000", 200),  # behind a server that speaks TLS
        ("origin", "http://evil.example", 403),
        ("origin", "http://127.0.0.1:8001", 403),
        ("origin", "http://[", 403),
        ("origin", "null", 403),
        ("origin", "", 403),
    ],
)
def test_a_form_of_another_site_is_refused(client, engines, name, value, status):
    assert client.post("/", files={"photo": ("x.jpg", photo())}, headers={name: value}).status_code == status
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
        assert (answer.status_code, message in answer.text) == (400, True)
    assert engines["nns"].calls == []


def test_a_broken_upload_is_status_400(client):
    kind = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/", content=b"--y garbage", headers=kind).status_code == 400
    assert client.post("/", content=b"k=3").status_code == 400


def ask(app, headers: dict[str, str], chunk: bytes, instead: Callable | None = None) -> tuple[int, int]:
    """POST a photo that never ends, in chunks; the status, and how many chunks the application has taken. instead: what the
    server does in place of giving chunks."""
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
    app, chunk, short = create(engines), bytes(MAX_UPLOAD // 4), {"content-length": "1000"}
    assert ask(app, {"content-length": str(MAX_UPLOAD + 1)}, chunk) == (413, 0)
    assert ask(app, {"content-length": "-1"}, chunk) == (413, 0)
    assert (ask(app, {"transfer-encoding": "chunked"}, chunk), ask(app, short, chunk)) == ((413, 5), (413, 5))
    monkeypatch.setattr(requests, "UPLOAD_SECONDS", 0.05)
    assert ask(create(engines), short, b"", anyio.sleep_forever) == (408, 0)
    monkeypatch.setattr(requests, "TOGETHER", MAX_UPLOAD // 2)
    app = create(engines)
    # Twice: what the first took is free again.
    assert [ask(app, short, chunk) for _ in range(2)] == [(503, 3)] * 2

    async def gone():
        return {"type": "http.disconnect"}

    # A visitor who leaves is no failure; an exception would end in the terminal with a traceback.
    assert ask(create(engines), short, b"", gone) == (400, 0)


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


@pytest.mark.parametrize(("limit", "value"), [("TURN_SECONDS", 0.2), ("WAITING", 1)])
def test_a_turn_that_does_not_come_is_status_503(engines, monkeypatch, limit, value):
    monkeypatch.setattr(site, limit, value)
    engines["nns"].gate = threading.Event()
    with TestClient(create(engines), base_url="http://localhost") as client:
        answers: list = []
        searches = [threading.Thread(target=lambda: answers.append(client.get("/?text=red"))) for _ in range(3)]
        for search in searches:
            search.start()
        while not answers:
            time.sleep(0.005)
        engines["nns"].gate.set()
        for search in searches:
            search.join()
    turned_away = [answer for answer in answers if answer.status_code != 200]
    assert len(turned_away) == (1 if limit == "WAITING" else 2)
    assert {(answer.status_code, answer.headers["Retry-After"]) for answer in turned_away} == {(503, "2")}
