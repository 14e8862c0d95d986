"""Searches as JSON, the pictures, and what a request may ask for."""

import io
import json
import struct
import zlib
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.tools.serve.test_page import photo, png
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.tools.serve.requests import MAX_K, MAX_TEXT, Query, check_upload, read


def test_a_search_is_the_engines_answer(client, engines):
    answer = client.get("/api/search", params={"text": "green", "k": "2", "inference": "csls"})
    assert answer.status_code == 200
    told = answer.json()
    ours = json.loads(json.dumps(asdict(engines["csls"].by_text("green", 2))))
    assert {key: told[key] for key in ours} == ours
    more = {"chosen": "as asked", "split": "test", "direction": "text_to_image", "searched": 5, "left_out": {}}
    more |= {"correction": {}, "offset": 0, "next": 2}
    assert {key: value for key, value in told.items() if key not in ours} == more
    assert [hit["image_id"] for hit in answer.json()["hits"]] == [17, 7]


def test_a_search_by_image_id_and_by_photo(client, engines):
    assert client.get("/api/search", params={"image_id": "27"}).json()["hits"][0]["caption_id"] == 70
    answer = client.post("/api/search?k=1", files={"photo": ("x.jpg", photo())})
    assert len(answer.json()["hits"]) == 1
    assert answer.json()["direction"] == "image_to_text"
    assert [call[0] for call in engines["nns"].calls] == ["image_id", "photo"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/search", 400, "search for what? give text, image_id, or POST a photo"),
        ("/api/search?text=x&k=ten", 400, "k must be a whole number from 1 to 100, got 'ten'"),
        ("/api/search?image_id=99", 400, "image 99 is not in the test split"),
        ("/api/nothing", 404, "Not Found"),
        ("/picture/99", 404, "no image_id 99"),
        ("/picture/47", 404, "no picture of image 47"),
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
    assert client.get("/health").json() == {
        "status": "ok", "run": "toy", "split": "test", "inferences": ["nns", "csls"], "images": 5, "captions": 5,
    }  # fmt: skip
    answer = client.delete("/api/search")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert client.post("/health").status_code == 405


SERVED = ["csls", "nns"]


def test_what_is_asked_with_the_defaults_for_the_rest():
    assert read([("text", "  two \n dogs ")], SERVED) == Query(10, "csls", text="two dogs")
    asked = [("text", "x"), ("k", "100"), ("inference", "nns")]
    assert read(asked, SERVED) == Query(100, "nns", text="x")
    assert read([("image_id", "-5"), ("k", "1")], SERVED) == Query(1, "csls", image_id=-5)
    assert read([("k", "3")], SERVED, b"jpeg") == Query(3, "csls", photo=b"jpeg")
    narrow = {"offset": "20", "to": "captions", "where": " width > 3 ", "group": "0.97", "min_probability": "1"}
    asked = [("text", "x"), *narrow.items()]
    assert read(asked, SERVED) == Query(10, "csls", "x", None, None, 20, "captions", "width > 3", 0.97, 1.0)
    assert read([("text", "x"), ("to", ""), ("where", ""), ("group", ""), ("min_probability", "")], SERVED) == Query(
        10, "csls", text="x"
    )
    assert read([], SERVED) is None
    assert read([("k", "5"), ("inference", "nns")], SERVED) is None
    with pytest.raises(UsageError, match="k must be"):
        read([("k", "0")], SERVED)


REFUSED = [
    ([("text", " \t ")], "type a sentence to search with"),
    ([("text", "x" * (MAX_TEXT + 1))], "the sentence has 1,001 characters; 1,000 are the most"),
    ([("text", "x"), ("k", "101")], "k must be a whole number from 1 to 100, got '101'"),
    ([("text", "x"), ("k", "")], "k must be a whole number from 1 to 100, got ''"),
    ([("text", "x"), ("k", "1_0")], "k must be a whole number from 1 to 100, got '1_0'"),
    ([("text", "x"), ("k", "\u0663")], "k must be a whole number"),
    ([("text", "x"), ("k", "9" * 5000)], "k must be a whole number from 1 to 100, got '" + "9" * 40 + "'"),
    ([("image_id", "9223372036854775808")], "image_id must be a whole number, got"),
    ([("image_id", "../7")], "image_id must be a whole number, got '../7'"),
    ([("text", "x"), ("inference", "is")], "inference 'is' is not served here; served: csls, nns"),
    ([("text", "x"), ("image_id", "1")], "text and image_id exclude each other: ask for one of them"),
    ([("text", "x"), ("text", "y")], "text is given twice"),
    ([("text", "x"), ("offset", "-1")], "offset must be a whole number from 0 to 10000, got '-1'"),
    ([("text", "x"), ("offset", "9" * 19)], "offset must be a whole number from 0 to 10000"),
    ([("text", "x"), ("to", "videos")], "to must be images or captions, got 'videos'"),
    ([("text", "x"), ("group", "nan")], "group must be a cosine above 0 and at most 1, got 'nan'"),
    ([("text", "x"), ("group", "0")], "group must be a cosine above 0 and at most 1, got '0'"),
    ([("text", "x"), ("group", "-0.5")], "group must be a cosine above 0 and at most 1"),
    ([("text", "x"), ("group", "1e-3")], "group must be a cosine above 0 and at most 1"),
    ([("text", "x"), ("group", "0.9"), ("offset", "300")], "grouped, the first 300 results can be asked for"),
    (
        [("text", "x"), ("min_probability", "1.5")],
        "min_probability must be a probability above 0 and at most 1, got '1.5'",
    ),
    ([("text", "x"), ("where", "w" * 1001)], "the condition has 1,001 characters; 1,000 are the most"),
    ([("txt", "x")], "unknown field 'txt'; did you mean 'text'? known: text, image_id, k, offset, "),
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
PAIRS = st.lists(st.tuples(st.sampled_from(FIELDS), st.text(max_size=8)), max_size=4)


@given(PAIRS)
def test_anything_is_a_query_within_the_limits_or_refused_in_one_line(pairs):
    query, refusal = None, ""
    try:
        query = read(pairs, SERVED)
    except UsageError as error:
        refusal = str(error)
    if refusal:
        assert len(refusal.splitlines()) == 1
    elif query is None:
        assert {"text", "image_id"}.isdisjoint(name for name, _ in pairs)
    else:
        assert 1 <= query.k <= MAX_K
        assert query.inference in SERVED
        assert (query.text is None) != (query.image_id is None)


def test_ids_that_are_text_are_taken_as_they_are():
    asked = read([("image_id", "beach/boat 1.jpg")], ["nns"], named=True)
    assert asked.image_id == "beach/boat 1.jpg"
    with pytest.raises(UsageError, match="an image_id has at most 200 characters, this one 201"):
        read([("image_id", "x" * 201)], ["nns"], named=True)


def header(width: int, height: int) -> bytes:
    """A PNG that claims a size and has no pixels."""
    fields = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    checked = struct.pack(">I", 13) + fields + struct.pack(">I", zlib.crc32(fields))
    return b"\x89PNG\r\n\x1a\n" + checked + struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))


def test_uploads_that_pass():
    check_upload(png(30, 20))
    check_upload(header(10_000, 5_000))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no picture that can be read"),
        (b"<html>not a picture</html>", "is no picture that can be read; known: JPEG, PNG, "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "is no picture that can be read"),
        (header(10_001, 5_000), "the picture has 50 megapixels; 50 are the most"),
        (header(12_000, 10_000), "the picture has 120 megapixels; 50 are the most"),
        (header(60_000, 60_000), "the picture is too large: 50 megapixels are the most"),
    ],
)
def test_uploads_that_do_not(content, message):
    with pytest.raises(InputError) as refused:
        check_upload(content)
    assert message in str(refused.value)
